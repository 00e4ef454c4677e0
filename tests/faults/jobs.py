"""Starts the fault jobs: the torch-free program by its own launcher, the torch program by torchrun."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from firstfault_server.demo.launcher import Ranks
from firstfault_server.demo.plan import Plan
from tests.faults import torch_env
from tests.faults.table import Case

TORCHRUN_POLL_S = 0.1


class Job(Protocol):
    """One running attempt."""

    def ended(self) -> bool:
        """Whether every process has ended; stops the others, as the launcher at hand does, when one has failed."""

    def terminate(self) -> None:
        """SIGTERM to every rank, as a scheduler does."""

    def kill(self) -> None:
        """End everything at once."""

    def output(self) -> str:
        """What the job wrote, for the message of a test that fails."""


def environment(case: Case, endpoint: str, run: str) -> dict[str, str]:
    """Environment of a job: nothing of the test's own settings, no devices."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("FIRSTFAULT_", "CUDA_VISIBLE", "PYTEST_", "OTEL_"))}
    return kept | {"FIRSTFAULT_ENDPOINT": endpoint, "FIRSTFAULT_RUN_ID": run, "FIRSTFAULT_RUN_NAME": case.name}


class NumpyJob:
    """The demonstration job."""

    def __init__(self, case: Case, plan: Plan, folder: Path, environ: Mapping[str, str]) -> None:
        self._grace_s = case.grace_s
        command = [sys.executable, "-m", "firstfault_server.demo.job", *plan.arguments()]
        self._ranks = Ranks(command, case.ranks, folder, environ)

    def ended(self) -> bool:
        """Polled often, so that the launcher's grace runs in `watch`."""
        if all(code is None or code == 0 for code in self._ranks.codes()):
            return None not in self._ranks.codes()
        return None not in self._ranks.watch(self._grace_s, timeout_s=self._grace_s + 10)

    def terminate(self) -> None:
        """SIGTERM to every rank."""
        self._ranks.signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL to every rank."""
        self._ranks.signal(signal.SIGKILL)
        self._ranks.watch()

    def output(self) -> str:
        """End of every rank's stderr."""
        texts = [f"rank {rank}: {self._ranks.errors(rank).read_text()[-1500:]}" for rank in range(len(self._ranks.processes))]
        return "\n".join(texts)


class TorchJob:
    """DDP over gloo under torchrun, in the environment of its own."""

    def __init__(self, case: Case, plan: Plan, folder: Path, environ: Mapping[str, str]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        binaries = torch_env.ensure() / "bin"
        command = [str(binaries / "torchrun"), "--standalone", f"--nproc-per-node={case.ranks}", f"--log-dir={folder / 'ranks'}"]
        command += ["--redirects=3", f"--monitor-interval={max(case.grace_s, TORCHRUN_POLL_S)}"]
        command += [str(Path(__file__).with_name("torch_job.py")), *plan.arguments()]
        env = dict(environ) | {
            "PATH": f"{binaries}{os.pathsep}{environ.get('PATH', '')}",
            "PYTHONPATH": str(torch_env.ROOT / "services"),
            "OMP_NUM_THREADS": "1",
        }
        with (folder / "torchrun.out").open("wb") as out, (folder / "torchrun.err").open("wb") as err:
            self._process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=err)

    def ended(self) -> bool:
        """torchrun ends when its ranks have."""
        return self._process.poll() is not None

    @staticmethod
    def errors(folder: Path, ranks: int) -> list[Path]:
        """What each rank wrote to stderr, where torchrun keeps it."""
        return [next(folder.glob(f"ranks/*/attempt_0/{rank}/stderr.log")) for rank in range(ranks)]

    def terminate(self) -> None:
        """SIGTERM to launcher, ranks and data workers."""
        signal_tree(self._process.pid, signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL to launcher, ranks and data workers."""
        if self._process.poll() is None:
            signal_tree(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def output(self) -> str:
        """End of the launcher's and every rank's stderr."""
        files = [self._folder / "torchrun.err", *sorted(self._folder.glob("ranks/**/stderr.log"))]
        return "\n".join(f"{path.parent.name}/{path.name}: {path.read_text(errors='replace')[-1500:]}" for path in files)


def signal_tree(root: int, number: signal.Signals) -> None:
    """Signal a process and all its descendants at once, as schedulers do; torchrun gives each rank a session of its own."""
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(stat.parent.name)] = int(stat.read_text(errors="replace").rpartition(")")[2].split()[1])
        except (OSError, IndexError):
            continue
    tree = {root}
    while more := {pid for pid, parent in parents.items() if parent in tree} - tree:
        tree |= more
    for pid in tree:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
