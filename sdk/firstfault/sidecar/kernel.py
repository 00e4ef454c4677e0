"""Asks the kernel whether it killed a process for want of memory: the memory cgroup's counter and, where readable, its log."""

import os
import re
from pathlib import Path

_KILLED = re.compile(r"[Kk]illed process (\d+)\b|\boom-kill:.*\bpid=(\d+)")
_RECORD_BYTES = 8192
_MOST_RECORDS = 20_000


class KernelEvidence:
    """Evidence of an out-of-memory kill of one process, collected between construction and `oom`."""

    def __init__(self, pid: int, proc: Path = Path("/proc"), cgroups: Path = Path("/sys/fs/cgroup"), log: Path = Path("/dev/kmsg")) -> None:
        self._pid = pid
        self._counters = _counter_files(proc / str(pid) / "cgroup", cgroups)
        self._before = [_kills(path) for path in self._counters]
        try:
            self._log = os.open(log, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            os.lseek(self._log, 0, os.SEEK_END)
        except OSError:
            self._log = -1  # Ordinary users may not read it; the counter is left.

    def oom(self) -> tuple[str, str]:
        """Words for people, and the kernel's own line; both empty without a sign. The counter covers the whole cgroup."""
        line = self._line()
        if line:
            return "the kernel's out-of-memory killer chose it", line
        for path, before in zip(self._counters, self._before, strict=True):
            if _kills(path) > before:
                return "the memory cgroup counted an out-of-memory kill at that time", ""
        return "", ""

    def _line(self) -> str:
        if self._log < 0:
            return ""
        for _ in range(_MOST_RECORDS):
            try:
                raw = os.read(self._log, _RECORD_BYTES)
            except BrokenPipeError:
                continue  # The ring overwrote what was next; reading goes on behind it.
            except OSError:
                return ""
            if not raw:
                return ""
            message = raw.partition(b";")[2].partition(b"\n")[0].decode("utf-8", "backslashreplace")
            found = _KILLED.search(message)
            if found and int(found[1] or found[2]) == self._pid:
                return message
        return ""


def _counter_files(membership: Path, cgroups: Path) -> list[Path]:
    """Counter files of the memory cgroup, version 2 and 1."""
    try:
        lines = membership.read_text().splitlines()
    except OSError:
        return []
    files = []
    for line in lines:
        hierarchy, controllers, path = [*line.split(":", 2), "", ""][:3]
        if hierarchy == "0" and not controllers:
            files.append(cgroups / path.lstrip("/") / "memory.events")
        elif "memory" in controllers.split(","):
            files.append(cgroups / "memory" / path.lstrip("/") / "memory.oom_control")
    return [file for file in files if file.is_file()]


def _kills(path: Path) -> int:
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return 0
    return next((int(value) for name, _, value in (line.partition(" ") for line in lines) if name == "oom_kill" and value.isdigit()), 0)
