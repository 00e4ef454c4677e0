"""Who waits for whom among ranks that show no fault of their own: collective state first, then step and phase, then who is left over."""

from collections import defaultdict
from collections.abc import Sequence

import msgspec

from firstfault_server.core.cause.observation import RankObservation


class Lag(msgspec.Struct, kw_only=True):
    """Observations (by index) that others wait for, and how that is known."""

    who: list[int]
    why: str
    trust: int
    """3 collective state, 2 text that names absent ranks, 1 step or phase, 0 left over."""


def lagging(observations: Sequence[RankObservation], waiting: Sequence[int]) -> Lag | None:
    """The ranks that hold the others up; None when the evidence separates nobody.

    `waiting`: indexes of observations whose text says that they wait or lost a peer.
    """
    return (
        _by_collective(observations)
        or _by_name(observations, waiting)
        or _by_step(observations)
        or _by_phase(observations)
        or _left_over(observations, waiting)
    )


def _by_collective(observations: Sequence[RankObservation]) -> Lag | None:
    """Sequence numbers compare only inside one group: who has not entered what others have entered is waited for."""
    groups: dict[str, list[int]] = defaultdict(list)
    for index, seen in enumerate(observations):
        if seen.group and seen.sequence is not None:
            groups[seen.group].append(index)
    late: dict[int, str] = {}
    for group in sorted(groups):
        members = groups[group]
        newest = max(observations[i].sequence or 0 for i in members)
        inside = [i for i in members if observations[i].sequence == newest and observations[i].entered]
        behind = [i for i in members if (observations[i].sequence or 0) < newest]
        if inside and behind:
            for i in behind:
                late.setdefault(i, f"never entered collective {newest} of group {group}, in which {len(inside)} wait")
    if not late:
        return None
    # A rank that itself waits inside a collective of another group is held up too: it is not where the chain begins.
    free = {i: why for i, why in late.items() if not observations[i].entered} or late
    return Lag(who=sorted(free), why=free[min(free)], trust=3)


def _by_name(observations: Sequence[RankObservation], waiting: Sequence[int]) -> Lag | None:
    named = {rank for i in waiting for fault in observations[i].faults for rank in fault.missing}
    waits = set(waiting)
    who = [i for i, seen in enumerate(observations) if seen.rank in named and i not in waits]
    return Lag(who=who, why="named as absent by ranks that wait", trust=2) if who and len(who) < len(observations) else None


def _by_step(observations: Sequence[RankObservation]) -> Lag | None:
    stages: dict[str, list[int]] = defaultdict(list)
    for index, seen in enumerate(observations):
        if seen.step is not None and seen.end != "finished":
            stages[seen.stage].append(index)
    who: list[int] = []
    ahead, lowest = 0, 0
    for members in stages.values():
        least = min(observations[i].step or 0 for i in members)
        most = max(observations[i].step or 0 for i in members)
        behind = [i for i in members if observations[i].step == least]
        if most > least and 2 * len(behind) <= len(members):
            who += behind
            ahead, lowest = max(ahead, most), least
    return Lag(who=sorted(who), why=f"at step {lowest} while its peers reached {ahead}", trust=1) if who else None


def _by_phase(observations: Sequence[RankObservation]) -> Lag | None:
    """One rank in another phase than all its peers (evaluating, checkpointing, still compiling) while they train."""
    phases: dict[str, list[int]] = defaultdict(list)
    for index, seen in enumerate(observations):
        if seen.phase and not seen.ended:
            phases[seen.phase].append(index)
    if len(phases) != 2:
        return None
    (few, fewer), (many, more) = sorted(phases.items(), key=lambda item: (len(item[1]), item[0]))
    if len(fewer) >= len(more):
        return None
    return Lag(who=fewer, why=f"in phase {few} while its peers are in {many}", trust=1)


def _left_over(observations: Sequence[RankObservation], waiting: Sequence[int]) -> Lag | None:
    """Everybody else says that it waits: the one that does not is waited for."""
    waits = set(waiting)
    rest = [i for i, seen in enumerate(observations) if i not in waits and seen.end != "finished"]
    if not waits or not rest or 2 * len(rest) > len(observations):
        return None
    return Lag(who=rest, why=f"says nothing while {len(waits)} other{'s' if len(waits) > 1 else ''} wait", trust=0)
