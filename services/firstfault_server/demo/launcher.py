"""Starts the ranks of a job on this machine, watches them, and stops the rest when one fails, as torchrun does.

    python -m firstfault_server.demo.launcher --ranks 2 --folder OUT -- python -m firstfault_server.demo.job --fault=exception

Each rank's output goes to OUT/rank-N.out and OUT/rank-N.err. Exits with the first failed rank's status (128 + signal).
"""

import argparse
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

_POLL_S = 0.05
_KILL_AFTER_S = 5.0


class Ranks:
    """The processes of one attempt of a job."""

    def __init__(self, command: Sequence[str], count: int, folder: Path, environ: Mapping[str, str]) -> None:
        """Start `count` processes; their output goes to files in `folder`, which is made if missing."""
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        common = dict(environ) | {
            "WORLD_SIZE": str(count),
            "LOCAL_WORLD_SIZE": str(count),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(_free_port()),
            "PYTHONUNBUFFERED": "1",
            # Many ranks share few cores here; libraries must not start a thread pool each.
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
        }
        self.processes: list[subprocess.Popen[bytes]] = []
        for rank in range(count):
            with self.output(rank).open("wb") as out, self.errors(rank).open("wb") as err:
                env = common | {"RANK": str(rank), "LOCAL_RANK": str(rank)}
                self.processes.append(subprocess.Popen(list(command), env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=err))

    def output(self, rank: int) -> Path:
        """File with what a rank printed."""
        return self.folder / f"rank-{rank}.out"

    def errors(self, rank: int) -> Path:
        """File with what a rank wrote to stderr."""
        return self.folder / f"rank-{rank}.err"

    def codes(self) -> list[int | None]:
        """Exit status per rank as `subprocess` gives it: negative for a signal, None while it runs."""
        return [process.poll() for process in self.processes]

    def watch(self, grace_s: float = 0.0, timeout_s: float | None = None) -> list[int | None]:
        """Wait for all ranks; `grace_s` after a rank failed, stop the others.

        Returns the exit statuses; None for ranks that still ran after `timeout_s`, which go on running.
        """
        started, failed_at = time.monotonic(), None
        while None in (codes := self.codes()):
            now = time.monotonic()
            if timeout_s is not None and now - started > timeout_s:
                return codes
            if failed_at is None and any(code for code in codes):
                failed_at = now
            if failed_at is not None and now - failed_at >= grace_s:
                self.stop()
                return self.codes()
            time.sleep(_POLL_S)
        return codes

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to every rank that runs."""
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(number)

    def stop(self) -> None:
        """SIGTERM to every rank, SIGKILL to those that stay; returns when all have ended."""
        self.signal(signal.SIGTERM)
        deadline = time.monotonic() + _KILL_AFTER_S
        for process in self.processes:
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


def main(argv: Sequence[str] | None = None) -> int:
    """Run a job to its end; returns the exit status."""
    parser = argparse.ArgumentParser(description="Start the ranks of a job on this machine.")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--folder", type=Path, required=True, help="where the output of each rank goes")
    parser.add_argument("--grace-s", type=float, default=0.0, help="how long the others may go on after a rank failed")
    parser.add_argument("command", nargs="+", help="after --: the training command")
    arguments = parser.parse_args(argv)
    ranks = Ranks(arguments.command, arguments.ranks, arguments.folder, os.environ)

    def asked(number: int, _frame: object) -> None:
        ranks.signal(signal.Signals(number))

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, asked)
    codes = [code for code in ranks.watch(arguments.grace_s) if code]
    return 0 if not codes else codes[0] if codes[0] > 0 else 128 - codes[0]


if __name__ == "__main__":
    sys.exit(main())
