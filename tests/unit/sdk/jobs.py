"""Runs small training programs with the SDK as processes of their own."""

import os
import select
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

_REPOSITORY = Path(__file__).resolve().parents[3]
_KEPT = ("PATH", "HOME", "LANG", "TMPDIR", "LD_LIBRARY_PATH")


@dataclass
class Outcome:
    """How a job ended."""

    code: int
    stdout: str
    stderr: str
    seconds: float
    waited_s: float
    """Seconds of these in which the main thread neither ran nor waited for a processor: the load of the machine does not count."""


def environment(endpoint: str | None, **more: str) -> dict[str, str]:
    """A clean environment; `endpoint` None switches the SDK off. Internal errors of the SDK are raised."""
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    switch = {"FIRSTFAULT_DISABLED": "1"} if endpoint is None else {"FIRSTFAULT_ENDPOINT": endpoint, "FIRSTFAULT_DEBUG_RAISE": "1"}
    return {
        **kept,
        **switch,
        "FIRSTFAULT_OTLP_PROTOCOL": "http/json",
        "FIRSTFAULT_SIDECAR": "0",
        "FIRSTFAULT_SPOOL_DIR": "",
        "PYTHONPATH": os.pathsep.join([str(_REPOSITORY / "sdk"), str(_REPOSITORY)]),
        **more,
    }


def start(source: str, env: dict[str, str], folder: Path) -> "subprocess.Popen[str]":
    """Start a program; it runs as the file job.py in `folder`."""
    script = folder / "job.py"
    script.write_text(source, encoding="utf-8")
    return subprocess.Popen(
        [sys.executable, str(script)],
        env=env,
        close_fds=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(source: str, env: dict[str, str], folder: Path, timeout_s: float = 60.0) -> Outcome:
    """Run a program to its end; one that does not end is killed and fails the test."""
    began = time.monotonic()
    with start(source, env, folder) as process, ThreadPoolExecutor(2) as readers:
        assert process.stdout is not None and process.stderr is not None
        texts = [readers.submit(stream.read) for stream in (process.stdout, process.stderr)]
        handle = os.pidfd_open(process.pid)
        try:
            ended = bool(select.select([handle], [], [], timeout_s)[0])
        finally:
            os.close(handle)
        if not ended:
            process.kill()
        seconds = time.monotonic() - began
        waited_s = seconds - _busy_s(process.pid)
        process.wait()
        stdout, stderr = (text.result() for text in texts)
    assert ended, f"the job did not end: {stderr}"
    return Outcome(process.returncode, stdout, stderr, seconds, waited_s)


def _busy_s(pid: int) -> float:
    """Seconds in which the main thread of an ended process that nobody has waited for ran or waited for a processor, with what its
    children ran (proc(5): schedstat, cutime, cstime)."""
    running_ns, queued_ns, _ = map(int, Path(f"/proc/{pid}/schedstat").read_text().split())
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (running_ns + queued_ns) / 1e9 + (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")
