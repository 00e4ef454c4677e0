"""Starts the sidecar of this process so that it is nobody's child here: no zombie, nothing for `os.wait()` to find.

A short-lived Python process is started in a session of its own; it forks the sidecar and exits, and is reaped before
`start_sidecar` returns. Forking in the training process itself would copy its locks as they are; a fork in the small
single-threaded process in between is safe. The configuration goes through a pipe: it holds the API key.

Where this process is itself the one that adopts orphans (the first process of a container, a "subreaper"), the kernel makes
the sidecar its child after all; `firstfault run` as the first process avoids that.
"""

import os
import stat
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from firstfault._sidecar_config import SidecarConfig
from firstfault.redact import secrets_of
from firstfault.sidecar.handover import Handover, StderrSource
from firstfault.sidecar.launched import LaunchDir

_BOOT = Path(__file__).with_name("boot.py")
_START_TIMEOUT_S = 5.0
# The sidecar reads no settings of its own. What stays is what an interpreter or TLS needs to work at all; LD_PRELOAD and
# PYTHON* of the job (profilers, allocators) stay out.
_ENVIRONMENT = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR")


def stderr_source(fd: int = 2) -> StderrSource:
    """Look behind a descriptor of this process; opens the file for reading, the caller closes `fd` of the result."""
    try:
        found = os.fstat(fd)
    except OSError:
        return StderrSource(status="not_seen: closed")
    if not stat.S_ISREG(found.st_mode):
        if os.isatty(fd):
            return StderrSource(status="not_seen: terminal")
        character_device = stat.S_ISCHR(found.st_mode)
        return StderrSource(status="not_seen: closed" if character_device else "not_seen: pipe")
    link = Path(f"/proc/self/fd/{fd}")
    try:
        path = str(link.readlink())
        reading = os.open(link, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return StderrSource(status="not_seen: unreadable")
    return StderrSource(status="seen", path=path, fd=reading, offset=found.st_size)


def start_sidecar(config: SidecarConfig, environ: Mapping[str, str] | None = None) -> None:
    """Start the watcher of process `config.pid`, which must be the calling one. Takes some 20 ms, returns when it runs.

    Raises OSError, or ValueError for another process's id, when it cannot be started; the job goes on without it.
    """
    environ = os.environ if environ is None else environ
    if config.pid != os.getpid():
        raise ValueError("a process starts its own sidecar only")
    interpreter = _interpreter()
    stderr = stderr_source()
    launched = LaunchDir(environ["FIRSTFAULT_LAUNCH_DIR"]) if environ.get("FIRSTFAULT_LAUNCH_DIR") else None
    if launched is not None:
        launched.mark(config.pid)
    try:
        handover = Handover(
            config=config,
            stderr=stderr,
            secrets=secrets_of(environ),
            launch_dir=environ.get("FIRSTFAULT_LAUNCH_DIR", ""),
            end_time_s=_seconds(environ.get("SLURM_JOB_END_TIME", "")),
            debug_log=environ.get("FIRSTFAULT_SIDECAR_LOG", ""),
        )
        _spawn(interpreter, handover, [fd for fd in (config.beacon_fd, stderr.fd) if fd >= 0], environ)
    except BaseException:
        if launched is not None:
            launched.unmark(config.pid)
        raise
    finally:
        if stderr.fd >= 0:
            os.close(stderr.fd)


def _interpreter() -> str:
    """The interpreter that runs this program. Raises FileNotFoundError where a program with Python inside runs it instead: started
    with our arguments, that program would do anything but watch."""
    path = Path(sys.executable or "")
    if getattr(sys, "frozen", False) or not path.name.lower().startswith(("python", "pypy")) or not path.is_file():
        raise FileNotFoundError(f"not a Python interpreter to start the sidecar with: {sys.executable!r}")
    return str(path)


def _spawn(interpreter: str, handover: Handover, fds: list[int], environ: Mapping[str, str]) -> None:
    between = subprocess.Popen(
        [interpreter, "-I", "-S", str(_BOOT), str(handover.config.pid)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        env={name: environ[name] for name in _ENVIRONMENT if name in environ},
        pass_fds=fds,
        start_new_session=True,
    )
    try:
        # The new line ends the message: a child forked by another thread just now may hold the pipe open for long.
        between.communicate(handover.to_json().encode() + b"\n", timeout=_START_TIMEOUT_S)
    except subprocess.TimeoutExpired as error:
        raise TimeoutError(f"the sidecar did not start within {_START_TIMEOUT_S} s") from error
    finally:
        if between.returncode is None:
            between.kill()
            between.wait()
    if between.returncode != 0:
        raise ChildProcessError(f"the sidecar did not start (status {between.returncode})")


def _seconds(text: str) -> float | None:
    return float(text) if text.isdigit() else None
