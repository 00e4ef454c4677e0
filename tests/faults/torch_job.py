"""The torch training program of the fault jobs: DDP over gloo, a small model, a real data loader with workers. Run by torchrun."""

import itertools
import os
import signal
import sys
import threading
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

import firstfault
from firstfault import conventions as names
from firstfault_server.demo.plan import LATE_BY_S, Fault, Plan, parse

FEATURES = 32
BATCH = 8


class Shard(Dataset):
    """Samples of one rank, made on the fly; one sample of the fault's step is broken where the plan says so."""

    def __init__(self, plan: Plan, rank: int) -> None:
        self._plan = plan
        self._rank = rank

    def __len__(self) -> int:
        return self._plan.steps * BATCH

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        generator = torch.Generator().manual_seed(index * 1000 + self._rank)
        width = FEATURES
        features = torch.randn(width, generator=generator)
        step = index // BATCH
        if self._plan.strikes(Fault.NONFINITE, self._rank, step):
            features[0] = float("nan")
        return features, features.sum().reshape(1)


def strike(plan: Plan, rank: int, step: int) -> None:
    """Fail, if it is this rank's turn."""
    if plan.strikes(Fault.SIGKILL, rank, step):
        os.kill(os.getpid(), signal.SIGKILL)
    if plan.strikes(Fault.HANG, rank, step):
        threading.Event().wait()
    if plan.strikes(Fault.LATE_CAUSE, rank, step):
        dist.destroy_process_group()
        time.sleep(LATE_BY_S)
        raise OSError(28, "No space left on device", "/checkpoints/step-20.pt")


def entered(step: int) -> dict[str, str | int]:
    """What says to the service that this rank waits for its peers."""
    return {
        names.COLLECTIVE_GROUP: "world",
        names.COLLECTIVE_SEQ: step,
        names.COLLECTIVE_OP: "ALLREDUCE",
        names.COLLECTIVE_STATE: "entered",
    }


class Training:
    """Model, optimizer and a loader whose workers run: all that takes long to start belongs to the phase init."""

    def __init__(self, plan: Plan, rank: int) -> None:
        torch.manual_seed(0)
        self.plan = plan
        self.rank = rank
        self.model = DistributedDataParallel(nn.Sequential(nn.Linear(FEATURES, 64), nn.GELU(), nn.Linear(64, 1)))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)
        batches = iter(DataLoader(Shard(plan, rank), batch_size=BATCH, num_workers=1))
        self.batches = itertools.chain([next(batches)], batches)

    def run(self) -> None:
        """One batch, one backward pass with its all-reduce, one update a step."""
        for step, (features, targets) in enumerate(self.batches):
            began = time.monotonic()
            strike(self.plan, self.rank, step)
            if self.plan.strikes(Fault.EXCEPTION, self.rank, step):
                features = features[:, :-1]
            self.optimizer.zero_grad()
            loss = nn.functional.mse_loss(self.model(features), targets)
            firstfault.event(names.COLLECTIVE, entered(step))
            loss.backward()
            norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
            time.sleep(max(0.0, self.plan.step_s - (time.monotonic() - began)))
            firstfault.log({"loss": loss, "grad_norm": norm, "step_time": time.monotonic() - began}, step=step)


def main() -> None:
    """Train one rank to the end, or to its fault."""
    plan = parse(sys.argv[1:])
    firstfault.init()
    torch.set_num_threads(1)
    with firstfault.phase("init"):
        if plan.fault is Fault.CONFIG:
            print("devices", os.environ["CUDA_VISIBLE_DEVICES"].split(","))
        dist.init_process_group("gloo", timeout=timedelta(seconds=plan.collective_timeout_s))
        training = Training(plan, dist.get_rank())
    with firstfault.phase("train"):
        training.run()
    dist.barrier()
    dist.destroy_process_group()
    firstfault.shutdown()


if __name__ == "__main__":
    main()
