"""Starts small Python programs as training processes under a real sidecar, and finds that sidecar in the process table."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, TypeVar

SDK = str(Path(__file__).parents[3] / "sdk")
BOOT = str(Path(SDK, "firstfault", "sidecar", "boot.py"))
T = TypeVar("T")

# A training process reduced to what its sidecar sees. `beacon` is its page; behind `ready` the test's own lines run.
PRELUDE = """
import os, signal, subprocess, sys, time
from firstfault._beacon import Beacon, Cell, Exit
from firstfault._sidecar_config import SidecarConfig
from firstfault.sidecar.start import start_sidecar
beacon = Beacon()
beacon.cells[Cell.STEP] = 7
beacon.cells[Cell.PROGRESS_NS] = time.time_ns()
config = SidecarConfig(
    pid=os.getpid(), resource={"train.rank": 3, "service.instance.id": "i-1"}, endpoint=os.environ["FIRSTFAULT_ENDPOINT"],
    headers={"authorization": "Bearer ffk_test"}, beacon_fd=beacon.fd, beacon_path=beacon.path, heartbeat_interval_s=0.2,
    spool_dir=os.environ.get("FIRSTFAULT_SPOOL_DIR", ""), linger_s=float(os.environ.get("FIRSTFAULT_SIDECAR_LINGER_S", "0")),
)
start_sidecar(config)
print("ready", flush=True)
"""


def until(condition: Callable[[], T], timeout_s: float = 15.0) -> T:
    """Wait for a true value of `condition` and return it; fails the test when it does not come in time."""
    deadline = time.monotonic() + timeout_s
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not within {timeout_s} s: {condition}"
        time.sleep(0.01)
    return value


def sidecars_of(pid: int) -> list[int]:
    """Ids of the sidecars that watch process `pid`."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if BOOT.encode() in words and str(pid).encode() in words:
                found.append(int(entry.name))
    return found


class Jobs:
    """Starts jobs and remembers them."""

    def __init__(self, endpoint: str, folder: Path) -> None:
        self._endpoint = endpoint
        self.folder = folder
        self.stderr = folder / "stderr.log"
        self.started: list[subprocess.Popen[bytes]] = []
        self.spool = folder / "spool"
        self._debug = folder / "sidecar.log"

    def environ(self, **more: str) -> dict[str, str]:
        """The environment of a job."""
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("FIRSTFAULT_", "PYTHON", "SLURM_", "OTEL_"))}
        return {
            **clean,
            "PYTHONPATH": SDK,
            "FIRSTFAULT_ENDPOINT": self._endpoint,
            "FIRSTFAULT_OTLP_PROTOCOL": "http/json",
            "FIRSTFAULT_SIDECAR_LOG": str(self._debug),
            "TMPDIR": str(self.folder),
            "FIRSTFAULT_SPOOL_DIR": str(self.spool),
            **more,
        }

    def start(
        self, lines: str, *, environ: Mapping[str, str] | None = None, stderr: int | IO[bytes] | None = None, ready: bool = True
    ) -> subprocess.Popen[bytes]:
        """Start a watched process that goes on with `lines`; returns when its sidecar runs."""
        script = self.folder / f"job{len(self.started)}.py"
        script.write_text(PRELUDE + lines)
        return self.command([sys.executable, str(script)], environ=environ, stderr=stderr, ready=ready)

    def command(
        self,
        command: Sequence[str],
        *,
        environ: Mapping[str, str] | None = None,
        stderr: int | IO[bytes] | None = None,
        ready: bool = True,
        new_group: bool = True,
    ) -> subprocess.Popen[bytes]:
        """Start any command in a process group of its own; waits for its line `ready` when asked to."""
        with self.stderr.open("ab") as file:
            process = subprocess.Popen(
                command,
                env=self.environ(**(environ or {})),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=file if stderr is None else stderr,
                start_new_session=new_group,
            )
        self.started.append(process)
        if ready:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n", self.stderr.read_text(errors="replace")
        return process

    def run(self, lines: str, **more: str) -> int:
        """Run a watched process to its end; its status."""
        process = self.start(lines, environ=more)
        process.communicate(timeout=30)
        return process.returncode

    def wait_for_sidecars(self, timeout_s: float = 11.0) -> None:
        """Return when no sidecar of any started job is left."""
        try:
            until(lambda: not any(sidecars_of(process.pid) for process in self.started), timeout_s)
        finally:
            for process in self.started:
                for pid in sidecars_of(process.pid):
                    os.kill(pid, signal.SIGKILL)

    def sidecar_errors(self) -> str:
        """What the sidecars noted about themselves."""
        return self._debug.read_text() if self._debug.exists() else ""
