"""The training program of the demonstration: linear regression in numpy, gradients averaged over the ranks' sockets.

Started once per rank with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT in the environment; `demo.plan` says how it fails.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

import firstfault
from firstfault import conventions as names
from firstfault_server.demo.allreduce import Mesh
from firstfault_server.demo.plan import LATE_BY_S, Fault, Plan, parse

FEATURES = 16
BATCH = 32
LEARNING_RATE = 0.05
PROGRESS_EVERY = 10


def load_batch(rank: int, step: int, plan: Plan) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Features (BATCH, FEATURES) and targets (BATCH,) of one rank's shard."""
    random = np.random.default_rng((rank, step))
    features = random.normal(size=(BATCH, FEATURES))
    targets = features @ np.arange(FEATURES) + random.normal(scale=0.1, size=BATCH)
    if plan.strikes(Fault.EXCEPTION, rank, step):
        targets = targets[:-1]
    if plan.fault is Fault.NONFINITE and rank == plan.fault_rank and step == plan.fault_step:
        features[0, 0] = np.nan
    return features, targets


def gradient(
    weights: NDArray[np.float64], features: NDArray[np.float64], targets: NDArray[np.float64]
) -> tuple[float, NDArray[np.float64]]:
    """Mean squared error and its gradient (FEATURES,)."""
    errors = features @ weights - targets
    return float(np.mean(errors**2)), 2.0 * features.T @ errors / len(targets)


def read_settings(environ: Mapping[str, str], plan: Plan) -> None:
    """Look at what the job needs from its environment before anything starts."""
    if plan.fault is Fault.CONFIG:
        # The launcher sets no devices, so that every rank stumbles over the same missing variable.
        devices = environ["CUDA_VISIBLE_DEVICES"].split(",")
        print("devices", devices, flush=True)


def strike(plan: Plan, rank: int, step: int, mesh: Mesh) -> None:
    """Fail, if it is this rank's turn."""
    if plan.strikes(Fault.SIGKILL, rank, step):
        os.kill(os.getpid(), signal.SIGKILL)
    if plan.strikes(Fault.HANG, rank, step):
        print(f"stuck rank={rank} pid={os.getpid()}", flush=True)
        threading.Event().wait()
    if plan.strikes(Fault.LATE_CAUSE, rank, step):
        mesh.close()
        time.sleep(LATE_BY_S)
        raise OSError(28, "No space left on device", "/checkpoints/step-20.npz")


def entered(step: int) -> dict[str, str | int]:
    """What says to the service that this rank waits for its peers, so that it can tell who is missing."""
    return {
        names.COLLECTIVE_GROUP: "world",
        names.COLLECTIVE_SEQ: step,
        names.COLLECTIVE_OP: "ALLREDUCE",
        names.COLLECTIVE_STATE: "entered",
    }


def train(plan: Plan, rank: int, mesh: Mesh) -> None:
    """The loop: one batch, one all-reduce, one update a step."""
    weights = np.zeros(FEATURES)
    for step in range(plan.steps):
        began = time.monotonic()
        features, targets = load_batch(rank, step, plan)
        strike(plan, rank, step, mesh)
        loss, own_gradient = gradient(weights, features, targets)
        waited = time.monotonic()
        firstfault.event(names.COLLECTIVE, entered(step))
        mean_gradient = mesh.all_reduce(own_gradient)
        wait_s = time.monotonic() - waited
        weights -= LEARNING_RATE * mean_gradient
        time.sleep(max(0.0, plan.step_s - (time.monotonic() - began)))
        values = {"loss": loss, "grad_norm": float(np.linalg.norm(own_gradient)), "lr": LEARNING_RATE, "collective_wait": wait_s}
        firstfault.log({**values, "step_time": time.monotonic() - began}, step=step)
        if rank == 0 and step % PROGRESS_EVERY == 0:
            print(f"step {step} loss {loss:.4f}", flush=True)


def main(argv: Sequence[str] | None = None) -> None:
    """Train one rank to the end, or to its fault."""
    plan = parse(argv)
    firstfault.init()
    with firstfault.phase("init"):
        read_settings(os.environ, plan)
        rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        master = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
        mesh = Mesh.join(rank, world_size, master, plan.collective_timeout_s)
    with firstfault.phase("train"):
        train(plan, rank, mesh)
    # Nobody leaves while a peer may still be in its last step.
    mesh.all_reduce(np.zeros(1))
    mesh.close()
    firstfault.shutdown()


if __name__ == "__main__":
    main(sys.argv[1:])
