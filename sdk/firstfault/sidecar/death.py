"""Notices the end of another process and finds its status without being its parent."""

import os
import select
import struct
import time
from dataclasses import dataclass
from pathlib import Path

try:
    import fcntl
except ImportError:  # pragma: no cover - systems without it have no pidfd either
    fcntl = None  # type: ignore[assignment]

_POLL_S = 0.25
# linux/pidfd.h: ioctl PIDFD_GET_INFO = _IOWR(0xFF, 11, struct pidfd_info of 64 bytes), mask bit PIDFD_INFO_EXIT. Since Linux
# 6.15 it gives the wait status of a process even after its parent collected it.
_PIDFD_GET_INFO = 0xC040FF0B
_PIDFD_INFO_EXIT = 1 << 3
_PIDFD_INFO = struct.Struct("=QQ11Ii")
_STAT_START_CODE, _STAT_START_STACK, _STAT_EXIT_CODE, _STAT_START_TIME = 25, 27, 51, 21
_ENDED_STATES = ("Z", "X", "x")


@dataclass(frozen=True)
class Status:
    """How a process ended: an exit code or a signal, never both."""

    code: int | None = None
    signal: int | None = None
    source: str = "sidecar"
    """Value of `conventions.EXIT_SOURCE`: who knows it."""

    @staticmethod
    def of_wait(wait_status: int, source: str = "sidecar") -> "Status":
        """From the number that `waitpid` gives."""
        if os.WIFSIGNALED(wait_status):
            return Status(signal=os.WTERMSIG(wait_status), source=source)
        return Status(code=os.WEXITSTATUS(wait_status), source=source)


class WatchedProcess:
    """One process of this machine, by id and, where the kernel has them, by pidfd."""

    def __init__(self, pid: int, pidfd: int = -1, first_stat: bytes = b"") -> None:
        """`pidfd` -1: poll the process table. `first_stat`: what /proc/PID/stat said while the process was surely the one meant."""
        self._pid = pid
        self._pidfd = pidfd
        self._poller = select.poll() if pidfd >= 0 else None
        if self._poller is not None:
            self._poller.register(pidfd, select.POLLIN)
        fields = _fields(first_stat) or self._stat()
        self._started = fields[_STAT_START_TIME] if fields else ""
        self._image = _image(fields)

    def wait(self, timeout_s: float) -> bool:
        """True when the process has ended, waiting for that at most `timeout_s`."""
        if self._poller is not None:
            return bool(self._poller.poll(max(0, int(timeout_s * 1000))))
        deadline = time.monotonic() + timeout_s
        while not self._gone():
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            time.sleep(min(_POLL_S, left))
        return True

    def state(self) -> str | None:
        """State letter of the process table; None when the process is gone or the table is not readable."""
        fields = self._stat()
        return fields[2] if fields else None

    def replaced(self) -> bool:
        """Whether the process executed another program (`os.exec*`): same id, but what was watched is over."""
        now = _image(self._stat())
        return None not in (self._image, now) and now != self._image

    def status(self) -> Status | None:
        """Status of the ended process, where this kernel or the process table still tells it."""
        fields = self._stat()
        if fields and fields[2] in _ENDED_STATES and (self._image is not None or fields[_STAT_EXIT_CODE] != "0"):
            return Status.of_wait(int(fields[_STAT_EXIT_CODE]))
        return self._status_of_pidfd()

    def _status_of_pidfd(self) -> Status | None:
        if self._pidfd < 0 or fcntl is None:
            return None
        info = bytearray(_PIDFD_INFO.pack(_PIDFD_INFO_EXIT, *(0,) * 13))
        try:
            fcntl.ioctl(self._pidfd, _PIDFD_GET_INFO, info)
        except OSError:
            return None  # An older kernel.
        mask, *_, exit_code = _PIDFD_INFO.unpack(info)
        return Status.of_wait(exit_code) if mask & _PIDFD_INFO_EXIT else None

    def _gone(self) -> bool:
        fields = self._stat()
        if fields:
            return fields[2] in _ENDED_STATES or fields[_STAT_START_TIME] != self._started
        try:
            os.kill(self._pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            return False
        return Path("/proc/self/stat").exists()

    def _stat(self) -> list[str]:
        try:
            return _fields(Path(f"/proc/{self._pid}/stat").read_bytes())
        except OSError:
            return []


def _fields(stat: bytes) -> list[str]:
    # The second field is the name in parentheses and may hold anything.
    head, _, tail = stat.decode("utf-8", "replace").rpartition(")")
    return [head, "", *tail.split()] if tail else []


def _image(fields: list[str]) -> tuple[str, str] | None:
    """Where code and stack of the present program lie: another program, or the same one executed again, has others.

    None when that is not told: the kernel shows start code 1, and exit code 0, to those who may not look into the process, and 0 once
    it is about to end.
    """
    if len(fields) <= _STAT_EXIT_CODE or fields[_STAT_START_CODE] in ("0", "1"):
        return None
    return fields[_STAT_START_CODE], fields[_STAT_START_STACK]
