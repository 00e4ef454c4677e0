"""Runs small training programs with the SDK as processes of their own."""

import os
import subprocess
import sys
import time
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
    with start(source, env, folder) as process:
        try:
            stdout, stderr = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            stdout, stderr = process.communicate()
            raise AssertionError(f"the job did not end in {timeout_s} s\n{stdout}\n{stderr}") from None
    return Outcome(process.returncode, stdout, stderr, time.monotonic() - began)
