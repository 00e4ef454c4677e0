"""Where a numeric fault began: the rank whose own number went first, before collectives spread it."""

from collections.abc import Sequence

import msgspec

from firstfault.conventions import LOSS
from firstfault_server.core.cause.observation import RoleOf, Verdict
from firstfault_server.core.model import SECOND_NS, Role


class NumberSeen(msgspec.Struct, kw_only=True):
    """What one process's detectors say about one symptom."""

    process: str
    rank: int | None
    node: str = ""
    starts: list[tuple[int, str, int]] = []
    """Step (−1: not known), metric and event time (corrected for skew) at which each metric went wrong."""
    reports: bool = True
    """The process sends the metric at all."""
    text: str = ""


def first_number(symptom: str, seen: Sequence[NumberSeen]) -> Verdict:
    """The verdict over all processes of an attempt; at least one has a start.

    Within one step a rank whose loss went first precedes one whose gradients did: gradients are reduced over all ranks, the loss
    is a rank's own. A single reporter among silent peers proves nothing about where it began.
    """
    order = sorted((one for one in seen if one.starts), key=lambda one: (_key(one), one.rank is None, one.rank or 0, one.process))
    first = order[0]
    tied = [one for one in order if _tied(_key(one), _key(first))]
    reporters = [one for one in seen if one.reports]
    verdict = Verdict(symptom=symptom, why=first.text, candidates=[one.rank for one in tied if one.rank is not None])
    if len(tied) == 1 and (len(reporters) > 1 or len(seen) == 1):
        verdict.rank, verdict.process, verdict.node = first.rank, first.process, first.node
    else:
        verdict.scope = "all" if len(tied) == len(reporters) else "group"
        known = "only one rank reports this metric" if len(reporters) == 1 else f"{len(tied)} ranks show it first at the same step"
        verdict.why = f"{known}; {first.text}"
        verdict.certain = len(reporters) > 1
    began = {one.process for one in tied}
    for one in sorted(seen, key=lambda one: (one.rank is None, one.rank or 0, one.process)):
        role: Role = "initiating" if one.process in began else "cascade" if one.starts else "unknown"
        verdict.roles.append(RoleOf(process=one.process, rank=one.rank, role=role, why=one.text[:200]))
    return verdict


def _key(one: NumberSeen) -> tuple[int, int, int]:
    """Earliest start: step, then own loss before reduced gradients; time only where no step is known."""
    return min(
        (step if step >= 0 else 1 << 60, 0 if metric == LOSS else 1, 0 if step >= 0 else time_ns) for step, metric, time_ns in one.starts
    )


def _tied(one: tuple[int, int, int], first: tuple[int, int, int]) -> bool:
    """Equal steps, or, without steps, times that clocks cannot tell apart."""
    return one[:2] == first[:2] and one[2] - first[2] <= SECOND_NS
