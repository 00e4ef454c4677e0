"""What the evidence about one process amounts to: a fault of its own, a reaction to others, or teardown."""

from collections.abc import Sequence

import msgspec

from firstfault_server.core.cause.observation import Fault, NodeFact, RankObservation
from firstfault_server.core.model import SECOND_NS
from firstfault_server.core.thresholds import Thresholds, nanoseconds

NOTICE_NS = SECOND_NS // 2
"""A death may be noticed this much after it happened, where a sidecar has to poll the process table."""
QUIET_NS = 5 * SECOND_NS
"""A process that was last heard of lived on for up to this much (heartbeats come every two seconds)."""
SUDDEN = ("signal", "exit", "silence")
"""Kinds of evidence by which a process is gone without a word."""
_GENERIC = frozenset({"python_error", "unknown", ""})


class Own(msgspec.Struct, kw_only=True):
    """A fault that stands on its own."""

    index: int
    """Set by the caller: which observation."""
    fault: Fault
    time_ns: int
    """Corrected for skew."""
    trust: int
    """2 the text or the signal names a cause, 1 an error without a known role."""
    error: tuple[str, str]
    """Equal for the same error on different ranks."""
    why: str = ""
    known: bool = True

    def order(self) -> tuple[int, int, int, str]:
        """Who comes first; a death may have happened before it was noticed, so it precedes errors that may be its consequence."""
        shift = {"signal": -NOTICE_NS, "silence": QUIET_NS}.get(self.fault.kind, 0)
        time_ns = self.time_ns + shift
        return (time_ns, -self.trust, self.index, self.fault.id)


class Part(msgspec.Struct, kw_only=True):
    """One observation, read."""

    owns: list[Own] = []
    """Every own fault, also those that a stop explains."""
    best: Own | None = None
    """The one that stands for the process."""
    reaction: Fault | None = None
    """First waiting or cascade evidence, when the process has no fault of its own."""
    torn_down: bool = False
    """Everything it said came after a request to stop."""


def part_of(index: int, seen: RankObservation, facts: Sequence[NodeFact], limits: Thresholds) -> Part:
    """Read one observation. Facts about its process turn a bare death into what the kernel says of it."""
    part = Part()
    texts = sorted((fault for fault in seen.faults if fault.kind not in SUDDEN), key=lambda f: (f.time_ns, f.place, f.id))
    asked = any(fault.role == "teardown" and fault.fatal for fault in texts)
    deaths = [fault for fault in seen.faults if fault.kind in SUDDEN and not (asked and fault.kind == "exit")]
    reactions = [fault for fault in texts if fault.role in ("waiting", "cascade")]
    ill = seen.silent or bool(deaths)
    ended_ns = min((fault.time_ns for fault in deaths), default=0)
    for fault in texts:
        if fault.role in ("waiting", "cascade", "teardown") or not _speaks(fault, ill, ended_ns, limits):
            continue
        # Without a known role, what follows a reaction in the same process is the reaction's own consequence.
        if fault.role == "unknown" and reactions and (reactions[0].time_ns, reactions[0].place) <= (fault.time_ns, fault.place):
            continue
        part.owns.append(_own(index, seen, fault, 2 if fault.role == "initiating" else 1))
    killed = [fact for fact in facts if fact.kind == "oom_kill" and fact.process and fact.process == seen.process]
    spoke_first = bool(part.owns or reactions)
    for fault in deaths:
        if spoke_first and not killed:
            continue
        part.owns.append(_own(index, seen, fault, 2 if fault.kind != "exit" else 1))
    part.torn_down = asked
    if seen.stop_ns:
        window = nanoseconds(limits.stop_window_s)
        before = [own for own in part.owns if not 0 <= own.fault.time_ns - seen.stop_ns <= window]
        reactions = [fault for fault in reactions if not 0 <= fault.time_ns - seen.stop_ns <= window]
        part.torn_down = not before
        part.owns = before
    if part.owns:
        part.best = min(part.owns, key=_worth)
    elif reactions:
        part.reaction = min(reactions, key=lambda f: (f.role != "waiting", f.time_ns, f.place, f.id))
    return part


def _speaks(fault: Fault, ill: bool, ended_ns: int, limits: Thresholds) -> bool:
    """Handled errors and log lines count only when the process died soon after."""
    if fault.fatal:
        return True
    return ill and (not ended_ns or abs(ended_ns - fault.time_ns) <= nanoseconds(limits.death_join_s))


def _worth(own: Own) -> tuple[bool, bool, float, int, int, str]:
    """Among the faults of one process: what names a cause, said by the exception that ended it, first."""
    fault = own.fault
    return (fault.symptom in _GENERIC, not fault.fatal, -round(fault.weight, 6), own.time_ns, fault.place, fault.id)


def _own(index: int, seen: RankObservation, fault: Fault, trust: int) -> Own:
    # Two exit statuses are two errors, though neither says what it was.
    rest = fault.text if fault.kind == "exit" else fault.exception_type or fault.kind
    error = (fault.fingerprint or fault.symptom, "" if fault.fingerprint else rest)
    return Own(
        index=index,
        fault=fault,
        time_ns=fault.time_ns + seen.skew_ns,
        trust=trust,
        error=error,
        why=fault.text[:200],
        known=fault.kind != "silence" and not (fault.kind == "signal" and fault.role == "unknown"),
    )
