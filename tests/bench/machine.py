"""What the machine gave a measurement: CPU of its processes, and the share of the CPUs that others left to it meanwhile."""

import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

_TICK_S: Final = 1 / os.sysconf("SC_CLK_TCK")
_LEAST: Final = 0.02
"""Share below which nothing can be said any more."""


class Meanwhile:
    """From its making on: how much CPU the processes of a measurement took, and what others did."""

    def __init__(self, **processes: int) -> None:
        """Process ids by name. Of each its descendants count too; `others` are all that descend from none and not from this process."""
        self._roots = {"bench": os.getpid(), **processes}
        self._began, self._machine, self._own = time.monotonic(), _machine_s(), self._own_s()

    def cpu_s(self) -> Mapping[str, float]:
        """CPU seconds since the beginning by name; `bench` is this process with the descendants that have no name."""
        return {name: now - self._own[name] for name, now in self._own_s().items()}

    def left(self) -> float:
        """Share of the CPUs that neither other processes nor other guests of the host had: 1.0 on a quiet machine.

        A bound on a time is a bound on time × share: with half a machine twice the time is as good.
        """
        busy_s, stolen_s = (now - then for now, then in zip(_machine_s(), self._machine, strict=True))
        others_s = max(0.0, busy_s - sum(self.cpu_s().values())) + stolen_s
        whole_s = (os.cpu_count() or 1) * (time.monotonic() - self._began)
        return max(_LEAST, 1.0 - others_s / whole_s)

    def _own_s(self) -> dict[str, float]:
        parents = {pid: (parent, cpu) for pid, parent, cpu in _processes()}
        named = {pid: name for name, pid in self._roots.items()}
        found = dict.fromkeys(self._roots, 0.0)
        for pid, (_, cpu) in parents.items():
            at = pid
            while at not in named and at in parents:
                at = parents[at][0]
            if at in named:
                found[named[at]] += cpu
        return found


def _processes() -> Iterable[tuple[int, int, float]]:
    """Process, parent, CPU seconds with those of the children it has waited for."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        yield int(entry.name), int(fields[1]), sum(map(int, fields[11:15])) * _TICK_S


def _machine_s() -> tuple[float, float]:
    """CPU seconds of all processes, and those the host gave to other guests, since the machine started."""
    fields = [int(field) * _TICK_S for field in Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:]]
    user, nice, system, _idle, _waiting, interrupts, soft, stolen = fields[:8]
    return user + nice + system + interrupts + soft, stolen
