"""What launchers say of the processes they started: which rank failed first. Many logs name no rank in front of their exceptions."""

from collections.abc import Sequence
from typing import Final

import msgspec

from firstfault_server.core.cause.log_summary import Seen

ROOT: Final = "root"
"""Fact of a row in torchrun's table that stands under its "Root Cause"."""


_ENDED: Final = ("exit", "exit-signal", "rank-failed", "rank-status", "spawn-failed")
"""Patterns of lines that name a process which ended."""


class Blame(msgspec.Struct, kw_only=True, frozen=True):
    """What launchers say of one attempt."""

    rank: int | None = None
    """The rank that ended first, as far as they say so of one only."""
    status: int | None = None
    """Its exit status, where they tell it."""
    alike: int = 0
    """Ranks that ended with an error of their own and without a signal, this one included."""
    rooted: bool = False
    """They say which one was first."""
    seen: Seen | None = None
    """Where they say it."""


def blame_of(rows: Sequence[Seen]) -> Blame:
    """What the launchers' lines among `rows` say. Of several that failed by themselves torchrun's "first observed" one leads."""
    told = {seen.rank: seen for seen in rows if seen.rank is not None and seen.reading.pattern in _ENDED}
    failed = {rank: seen for rank, seen in told.items() if seen.reading.pattern != "exit-signal"}
    roots = {rank: seen for rank, seen in told.items() if seen.reading.facts.get(ROOT)}
    first = roots or failed
    if len(first) != 1:
        return Blame(alike=len(failed))
    ((rank, seen),) = first.items()
    status = seen.reading.facts.get("exit", "")
    return Blame(
        rank=rank,
        status=int(status) if status.lstrip("-").isdecimal() else None,
        alike=len(failed),
        rooted=bool(roots),
        seen=seen,
    )
