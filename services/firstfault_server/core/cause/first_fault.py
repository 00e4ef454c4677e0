"""What failed first: from what is known of each rank to one verdict (architecture.md section 5, "What failed first").

Not a race of clocks: hardware facts outrank text, text that names a cause outranks reactions, and who is waited on outranks who
spoke first; clocks, corrected for skew, only decide between faults that stand on their own.
"""

from collections.abc import Mapping, Sequence

from firstfault_server.core.cause import waits
from firstfault_server.core.cause.hardware import hardware_verdict
from firstfault_server.core.cause.observation import Fault, NodeFact, RankObservation, RoleOf, Verdict
from firstfault_server.core.cause.own_fault import SUDDEN, Own, Part, part_of
from firstfault_server.core.model import SECOND_NS, ExceptionInfo, Role
from firstfault_server.core.thresholds import Thresholds, nanoseconds

KILL_GRACE_NS = 5 * SECOND_NS
"""A SIGKILL this long after a request to stop is the stop's second half (launchers and kubelets wait longer than this)."""


def decide(
    observations: Sequence[RankObservation],
    *,
    facts: Sequence[NodeFact] = (),
    exceptions: Mapping[str, ExceptionInfo] | None = None,
    thresholds: Thresholds | None = None,
) -> Verdict:
    """The verdict over all ranks of one attempt; at least one observation must show a fault, a reaction, silence or a stall.

    `exceptions`: whole text by fault id. The order of the arguments' items does not matter.
    """
    limits = thresholds or Thresholds()
    ranks = sorted(observations, key=lambda seen: (seen.rank is None, seen.rank or 0, seen.process))
    parts = [part_of(i, seen, facts, limits) for i, seen in enumerate(ranks)]
    verdict = (
        hardware_verdict(ranks, parts, facts, limits)
        or _stopped(ranks, parts, limits)
        or _own(ranks, parts, limits)
        or _waited_for(ranks, parts)
        or _nobody(ranks, parts)
    )
    if verdict.fault is not None and exceptions:
        verdict.exception = exceptions.get(verdict.fault.id)
    if verdict.exception is None and verdict.fault is not None and verdict.fault.exception_type:
        verdict.exception = ExceptionInfo(type=verdict.fault.exception_type, message=verdict.fault.text)
    return verdict


def _stopped(ranks: Sequence[RankObservation], parts: Sequence[Part], limits: Thresholds) -> Verdict | None:
    """A request to stop that precedes every fault and reaction makes all of them teardown."""
    stops = [seen.stop_ns + seen.skew_ns for seen in ranks if seen.stop_ns]
    if not stops:
        return None
    first = min(stops)
    window = nanoseconds(limits.stop_window_s)
    for seen, part in zip(ranks, parts, strict=True):
        for own in part.owns:
            sudden = own.fault.kind in SUDDEN
            if own.time_ns - first > window or (own.time_ns - first <= KILL_GRACE_NS if sudden else own.time_ns < first):
                return None
        if part.reaction is not None and part.reaction.time_ns + seen.skew_ns < first:
            return None
    if any(seen.stalled for seen in ranks):
        return None
    roles = [
        RoleOf(process=seen.process, rank=seen.rank, role="teardown" if seen.stop_ns or part.owns or part.reaction else "unknown")
        for seen, part in zip(ranks, parts, strict=True)
    ]
    return Verdict(symptom="preempted", scope="all", roles=roles, why="asked to stop before anything failed", stopped=True)


def _own(ranks: Sequence[RankObservation], parts: Sequence[Part], limits: Thresholds) -> Verdict | None:
    """Somebody has a fault that is no reaction."""
    owns = sorted((own for part in parts if (own := part.best) is not None), key=Own.order)
    if not owns:
        return None
    first = owns[0]
    same = [own for own in owns if own.error == first.error]
    # Equal text is one error whenever it is said; deaths that say nothing are alike only when they happen together.
    if first.fault.kind in SUDDEN:
        together_s = limits.together_s if first.fault.kind == "silence" else limits.speak_first_s
        same = [own for own in same if own.time_ns - first.time_ns <= nanoseconds(together_s)]
    if any(ranks[own.index].rank is not None for own in same):
        # A process without a rank that says the same (a launcher, the kernel) is no further one that failed.
        same = [own for own in same if ranks[own.index].rank is not None]
    speakers = {own.index for own in same}
    ranked = any(seen.rank is not None for seen in ranks)
    known = [i for i, seen in enumerate(ranks) if not seen.never_seen and (seen.rank is not None or not ranked)]
    candidates = [rank for own in same if (rank := ranks[own.index].rank) is not None]
    verdict = Verdict(symptom=first.fault.symptom or "unknown", fault=first.fault, process=ranks[first.index].process)
    if len(same) >= 2 and len(speakers) == len(known):
        verdict.scope, verdict.candidates = "all", candidates
        verdict.why = f"all {len(same)} ranks report the same error; the first to speak is listed first"
        verdict.process = ""
        if first.fault.kind == "silence":
            _silence_scope(verdict, ranks, same)
    elif len(same) >= 2 and (first.fault.kind == "silence" or same[1].time_ns - first.time_ns <= nanoseconds(limits.speak_first_s)):
        verdict.scope, verdict.candidates, verdict.process = "group", candidates, ""
        verdict.why = f"{len(same)} ranks report the same error within {limits.speak_first_s:g} s"
        nodes = {ranks[own.index].node for own in same}
        if len(nodes) == 1 and "" not in nodes:
            mates = {i for i in known if ranks[i].node in nodes}
            if mates == speakers and len(known) > len(mates):
                verdict.scope, verdict.node = "node", nodes.pop()
        if first.fault.kind == "silence":
            _silence_scope(verdict, ranks, same)
    else:
        rival = _rival(ranks, owns, first, limits)
        if rival is not None:
            verdict.scope, verdict.process = "group", ""
            verdict.candidates = [rank for own in (first, rival) if (rank := ranks[own.index].rank) is not None]
            verdict.why = "two ranks on different nodes failed differently, too close for their clocks"
            speakers = {first.index, rival.index}
        else:
            seen = ranks[same[0].index]
            verdict.rank, verdict.node, verdict.process = seen.rank, seen.node or ranks[first.index].node, seen.process
            verdict.candidates = [seen.rank] if seen.rank is not None else []
            verdict.why = first.why
            speakers = {same[0].index, first.index}
    verdict.roles = _roles(ranks, parts, speakers, verdict.why if len(speakers) == 1 else "own fault", first.time_ns)
    if first.fault.kind == "exit":
        verdict.not_seen.append("exception: none was recorded before the exit")
    if not first.known:
        verdict.not_seen.append("exit record or signal of the process that is gone")
    return verdict


def _silence_scope(verdict: Verdict, ranks: Sequence[RankObservation], same: Sequence[Own]) -> None:
    """Several processes out of sight: a whole node, several nodes, or some processes of a node."""
    nodes = sorted({ranks[own.index].node for own in same})
    quiet = {own.index for own in same}
    whole = all(i in quiet for i, seen in enumerate(ranks) if seen.node in nodes and not seen.ended and not seen.never_seen)
    verdict.rank, verdict.process = None, ""
    # Nobody spoke, so there is no order of speaking.
    verdict.candidates.sort()
    if len(nodes) > 1:
        verdict.symptom, verdict.scope = "telemetry_lost", "all"
        verdict.why = (
            f"{len(same)} processes on {len(nodes)} nodes went out of sight together without exit records: "
            "losing sight of them is likelier than their death"
        )
    elif whole and nodes[0]:
        verdict.symptom, verdict.scope, verdict.node = "node_failure", "node", nodes[0]
        verdict.why = f"every process of node {nodes[0]} fell silent"
    else:
        verdict.scope = "group"
        verdict.why = f"{len(same)} processes fell silent"


def _rival(ranks: Sequence[RankObservation], owns: Sequence[Own], first: Own, limits: Thresholds) -> Own | None:
    """Another own fault that may as well have been first: of equal trust, on another node, closer than clocks can tell."""
    for own in owns[1:]:
        if own.time_ns - first.time_ns > nanoseconds(limits.clock_margin_s):
            return None
        if own.trust == first.trust and ranks[own.index].node != ranks[first.index].node and own.error != first.error:
            return own
    return None


def _waited_for(ranks: Sequence[RankObservation], parts: Sequence[Part]) -> Verdict | None:
    """Nobody shows a fault, some wait: the ones they wait for, if the evidence tells them apart."""
    waiting = [i for i, part in enumerate(parts) if part.reaction is not None]
    if not waiting and not any(seen.stalled for seen in ranks):
        return None
    absent = [i for i, seen in enumerate(ranks) if seen.never_seen]
    lag = waits.Lag(who=absent, why="never seen since the run began", trust=2) if absent else waits.lagging(ranks, waiting)
    if lag is None or len(lag.who) == len(ranks):
        return None
    verdict = _symptom_of_reactions(ranks, parts)
    verdict.why = lag.why
    held = [ranks[i] for i in lag.who]
    verdict.candidates = [seen.rank for seen in held if seen.rank is not None]
    nodes = {seen.node for seen in held}
    if len(held) == 1:
        verdict.rank, verdict.process, verdict.node = held[0].rank, held[0].process, held[0].node
    elif len(nodes) == 1 and "" not in nodes and all(i in lag.who for i, seen in enumerate(ranks) if seen.node in nodes):
        verdict.scope, verdict.node = "node", nodes.pop()
    else:
        verdict.scope = "group"
    verdict.roles = _roles(ranks, parts, set(lag.who), lag.why, 0)
    return verdict


def _nobody(ranks: Sequence[RankObservation], parts: Sequence[Part]) -> Verdict:
    """Reactions, or a stall, and nothing that tells the ranks apart."""
    verdict = _symptom_of_reactions(ranks, parts)
    verdict.scope = "all"
    verdict.why = "no rank shows a fault of its own, and nothing tells them apart"
    spoke = sorted((part.reaction.time_ns + ranks[i].skew_ns, i) for i, part in enumerate(parts) if part.reaction)
    verdict.candidates = [rank for _, i in spoke if (rank := ranks[i].rank) is not None]
    verdict.roles = _roles(ranks, parts, set(), "", 0)
    return verdict


def _symptom_of_reactions(ranks: Sequence[RankObservation], parts: Sequence[Part]) -> Verdict:
    reactions = sorted(
        (
            (part.reaction.role != "waiting", part.reaction.time_ns + ranks[i].skew_ns, i, part.reaction)
            for i, part in enumerate(parts)
            if part.reaction is not None
        ),
        key=lambda item: item[:3],
    )
    fault: Fault | None = reactions[0][3] if reactions else None
    if any(seen.stalled for seen in ranks):
        return Verdict(symptom="hang", fault=fault, certain=False)
    if fault is None:
        return Verdict(symptom="unknown", certain=False)
    return Verdict(symptom=fault.symptom or ("collective_timeout" if fault.role == "waiting" else "peer_lost"), fault=fault, certain=False)


def _roles(ranks: Sequence[RankObservation], parts: Sequence[Part], first: set[int], why: str, since_ns: int) -> list[RoleOf]:
    """The part of every rank, given those that began it."""
    stalled = any(seen.stalled for seen in ranks)
    roles: list[RoleOf] = []
    for i, (seen, part) in enumerate(zip(ranks, parts, strict=True)):
        role: Role = "unknown"
        reason = ""
        if i in first:
            role, reason = "initiating", why
        elif part.best is not None:
            late = part.best.time_ns >= since_ns
            role = "unknown" if not late or part.best.trust > 1 else "cascade"
            if part.best.fault.kind in ("signal", "exit") and late:
                role = "teardown"
            reason = part.best.why
        elif part.reaction is not None:
            role, reason = part.reaction.role, part.reaction.text
        elif seen.stalled or (stalled and not seen.ended and not seen.stop_ns):
            role, reason = "waiting", "alive, without progress"
        elif seen.stop_ns or part.torn_down:
            role, reason = "teardown", "asked to stop after the first fault"
        roles.append(RoleOf(process=seen.process, rank=seen.rank, role=role, why=reason[:200]))
    return roles
