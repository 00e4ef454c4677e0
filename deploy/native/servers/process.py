"""Start a server process, wait until it is ready, and end it for certain."""

import ctypes
import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

PR_SET_PDEATHSIG: Final = 1
STOP_S: Final = 30.0
LOG_TAIL: Final = 3000


class ServerFailed(RuntimeError):
    """A server could not be fetched, started or kept; the message says why."""


class Process:
    """One child process with its output in a log file. Killed by the kernel when the thread that started it ends."""

    def __init__(self, command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None) -> None:
        self.log = log
        libc, parent = ctypes.CDLL(None), os.getpid()

        def die_with_parent() -> None:
            libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            if os.getppid() != parent:
                os._exit(1)

        with log.open("wb") as output:
            # A session of its own: Ctrl-C in a terminal is for whoever started the server, who then stops it in order.
            self._child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment,
                start_new_session=True,
                preexec_fn=die_with_parent,
            )

    @property
    def pid(self) -> int:
        """Process id."""
        return self._child.pid

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return self._child.poll() is None

    def output(self) -> str:
        """The end of what it has said."""
        return self.log.read_bytes()[-LOG_TAIL:].decode("utf-8", "backslashreplace")

    def wait_until(self, ready: Callable[[], bool], timeout_s: float, what: str) -> None:
        """Raises ServerFailed, with the end of the log, when the process ends or the time is over first."""
        deadline = time.monotonic() + timeout_s
        while not ready():
            if not self.alive:
                raise ServerFailed(f"{what} ended with {self._child.returncode} while starting:\n{self.output()}")
            if time.monotonic() > deadline:
                self.kill()
                raise ServerFailed(f"{what} was not ready after {timeout_s:.0f} s:\n{self.output()}")
            time.sleep(0.05)

    def stop(self) -> None:
        """Ask it to end; kill it when it does not."""
        self._child.terminate()
        try:
            self._child.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """End it at once, as a crash would."""
        self._child.kill()
        self._child.wait()


def free_ports(count: int) -> list[int]:
    """Ports of the loopback interface that nobody listens on now."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def find_java(at_least: int) -> str:
    """Path of a Java that is new enough: JAVA_HOME, the one on the PATH, then those of the system. Raises ServerFailed."""
    homes = [Path(os.environ["JAVA_HOME"])] if os.environ.get("JAVA_HOME") else []
    on_path = [Path(folder) / "java" for folder in os.environ.get("PATH", "").split(os.pathsep) if folder]
    installed = sorted(Path("/usr/lib/jvm").glob("*/bin/java"))
    for java in [*(home / "bin" / "java" for home in homes), *on_path, *installed]:
        if java.is_file() and _version(java) >= at_least:
            return str(java)
    raise ServerFailed(f"Java {at_least} or newer is needed; set JAVA_HOME to one")


def _version(java: Path) -> int:
    """Major version; 0 when it does not tell."""
    release = java.resolve().parent.parent / "release"
    if release.is_file():
        text = release.read_text(encoding="utf-8", errors="replace")
    else:
        text = subprocess.run([str(java), "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'(?:JAVA_VERSION="|version ")(\d+)', text)
    return int(found[1]) if found else 0
