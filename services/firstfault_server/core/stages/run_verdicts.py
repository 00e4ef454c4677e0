"""From the run's state to verdicts: observations of one attempt, what triggers an episode, when it settles."""

from collections.abc import Sequence
from typing import Final

import msgspec

from firstfault_server.core.cause.exits import Ending, ending
from firstfault_server.core.cause.first_fault import decide
from firstfault_server.core.cause.numbers import NumberSeen, first_number
from firstfault_server.core.cause.observation import Fault, NodeFact, RankObservation, Verdict
from firstfault_server.core.model import SECOND_NS
from firstfault_server.core.stages.ids import digest
from firstfault_server.core.stages.run_attempts import counted
from firstfault_server.core.stages.run_state import Exit, Member, RunState
from firstfault_server.core.stages.run_watch import confirm_s, silence_ns
from firstfault_server.core.thresholds import Thresholds, nanoseconds

_ORDERED: Final = ("fault", "stop", "clean")


class Judged(msgspec.Struct, kw_only=True):
    """What one look at an attempt found."""

    verdict: Verdict | None = None
    trigger: str = ""
    """evidence | stall | stop | empty when there is nothing"""
    evidence_ns: int = 0
    """Receive time of the first evidence."""
    confirmed_ns: int = 0
    accounted: bool = False
    """Every rank has ended, spoken or fallen silent, and nothing sent before that is missing."""


def members_of(state: RunState, attempt: int) -> list[Member]:
    """Processes of an attempt that take part in training, by rank."""
    chosen = [member for member in state.members.values() if member.attempt == attempt and counted(member)]
    return sorted(chosen, key=lambda m: (m.rank is None, m.rank or 0, m.started_ns, m.process))


def death(member: Member) -> Fault | None:
    """The end of a process as evidence; None when it ended well, was asked to stop, or lives."""
    endings = [(one, ending(one.state, one.code, one.signal, one.reason)) for one in member.exits]
    faults = [(one, end) for one, end in endings if end.kind == "fault"]
    if not faults:
        return None
    # A record that knows the signal or status outranks one that only knows that the process is gone.
    known = [(one, end) for one, end in faults if end.known]
    if not known and any(end.kind != "fault" for _, end in endings):
        return None
    one, end = max(known or faults, key=lambda pair: (pair[1].signal is not None, -pair[0].time_ns, pair[0].id))
    return Fault(
        id=one.id,
        kind="signal" if end.signal is not None or not end.known else "exit",
        symptom=end.symptom,
        role="initiating" if end.signal is not None else "unknown",
        time_ns=one.time_ns,
        received_ns=min(each.received_ns for each in member.exits),
        text=end.text,
        source=one.source or "exit record",
        fatal=True,
    )


def silence(state: RunState, member: Member, limits: Thresholds) -> Fault:
    """Silence as evidence: it began when the process was last heard of."""
    return Fault(
        id=digest("silence", state.tenant, state.run, member.process),
        kind="silence",
        symptom="process_killed",
        role="unknown",
        time_ns=member.time_ns or member.received_ns,
        received_ns=silence_ns(state, member, limits),
        text=f"no sign of life for {limits.silence_s:g} s, and no exit record",
        source="heartbeats",
        fatal=True,
    )


def observations(state: RunState, attempt: int, now_ns: int, limits: Thresholds, hung: bool) -> list[RankObservation]:
    """Everything known of each rank of an attempt. `hung`: its hang was confirmed, so a stall outlives the process."""
    skews = _host_skews(state, attempt, limits)
    seen: list[RankObservation] = []
    latest: dict[int, str] = {}
    members = members_of(state, attempt)
    for member in members:
        if member.rank is not None:
            latest[member.rank] = member.process
    for member in members:
        if member.rank is not None and latest[member.rank] != member.process and not member.faults and not member.exits:
            continue
        faults = list(member.faults)
        if (end := death(member)) is not None:
            faults.append(end)
        if member.silent and not member.stop_ns:
            faults.append(silence(state, member, limits))
        seen.append(
            RankObservation(
                rank=member.rank,
                process=member.process,
                node=member.node,
                stage=member.stage,
                step=member.step,
                phase=member.phase,
                group=member.group,
                sequence=member.sequence,
                entered=member.collective == "entered",
                faults=faults,
                ended=member.ended,
                end=state_of(member)[0] if member.ended else "",
                stop_ns=member.stop_ns,
                silent=member.silent and not member.stop_ns,
                stalled=member.stalled and (hung or not member.ended),
                gpu_uuid=member.gpu_uuid,
                skew_ns=skews.get(member.node, 0),
            )
        )
    seen += [RankObservation(rank=rank, never_seen=True) for rank in never_seen(state, attempt, now_ns, limits)]
    return seen


def never_seen(state: RunState, attempt: int, now_ns: int, limits: Thresholds) -> list[int]:
    """Ranks of the world that have not been heard of by the end of the init budget, if most others have."""
    members = members_of(state, attempt)
    ranks = {member.rank for member in members if member.rank is not None}
    if state.world_size is None or not ranks or 2 * len(ranks) <= state.world_size or len(ranks) >= state.world_size:
        return []
    if now_ns < min(member.first_ns for member in members) + nanoseconds(limits.init_budget_s):
        return []
    return [rank for rank in range(state.world_size) if rank not in ranks]


def _host_skews(state: RunState, attempt: int, limits: Thresholds) -> dict[str, int]:
    """Per host the correction of its clock; small offsets are delivery, not clocks."""
    lowest: dict[str, int] = {}
    for member in state.members.values():
        if member.attempt == attempt and member.skew_ns:
            lowest[member.node] = min(lowest.get(member.node, member.skew_ns), member.skew_ns)
    trust = nanoseconds(limits.skew_trust_s)
    return {node: skew if abs(skew) > trust else 0 for node, skew in lowest.items()}


def state_of(member: Member) -> tuple[str, str]:
    """State of one process as people read it, and why."""
    if not member.exits:
        return ("unreachable", "no sign of life, no exit record") if member.silent else ("running", "")
    endings = [ending(one.state, one.code, one.signal, one.reason) for one in member.exits]
    fault = death(member)
    if member.stop_ns and (fault is None or fault.time_ns >= member.stop_ns):
        stops = [end for end in endings if end.kind == "stop"]
        told = [end for end in stops if end.state in ("preempted", "cancelled", "time_limit")] or stops
        return (told[0].state, told[0].text) if told else ("cancelled", "asked to stop")
    if not member.ended:
        return "running", ""
    chosen = min(zip(endings, member.exits, strict=True), key=lambda pair: _exit_order(pair[0], pair[1]))[0]
    return (
        ("unreachable", chosen.text)
        if not chosen.known and chosen.signal is None and chosen.state != "killed"
        else (chosen.state, chosen.text)
    )


def _exit_order(end: Ending, record: Exit) -> tuple[bool, int, int, str]:
    return (not end.known, _ORDERED.index(end.kind), -1 if end.signal is not None else 0, record.id)


def judge(state: RunState, attempt: int, now_ns: int, limits: Thresholds, hung: bool) -> Judged:
    """Look at one attempt: is there a failure, and which."""
    members = members_of(state, attempt)
    if not members:
        return Judged()
    facts = _facts(state, members)
    loud = any(_loud(member) for member in members)
    idle = all(member.step is None and not member.ended for member in members) and bool(never_seen(state, attempt, now_ns, limits))
    stalled = idle or _stalled(members, hung)
    if not loud and not stalled and not any(fact.initiates and _strikes(fact, members) for fact in facts):
        return Judged()
    seen = observations(state, attempt, now_ns, limits, hung)
    if idle:
        for one in seen:
            one.stalled = not one.never_seen
    verdict = decide(seen, facts=facts, exceptions={key: text.exception for key, text in state.texts.items()}, thresholds=limits)
    judged = Judged(verdict=verdict, accounted=_accounted(state, members, seen, now_ns, limits))
    times = [fault.received_ns for one in seen for fault in one.faults if fault.fatal or fault.role == "waiting"]
    times += [fact.received_ns for fact in facts if fact.initiates]
    onset = max((member.progress_ns for member in members if member.stalled), default=0)
    if verdict.stopped:
        judged.trigger = "stop"
    elif verdict.symptom == "hang":
        waiting = [fault.received_ns for one in seen for fault in one.faults if fault.role == "waiting"]
        confirmed = onset + nanoseconds(confirm_s(members, limits))
        if waiting:
            judged.confirmed_ns = max(min(waiting), onset)
        elif idle:
            judged.confirmed_ns = min(member.first_ns for member in members) + nanoseconds(limits.init_budget_s)
        elif hung or now_ns >= confirmed:
            judged.confirmed_ns = confirmed
        if judged.confirmed_ns:
            judged.trigger = "evidence"
        elif any(member.stop_ns for member in members):
            # Somebody ended it before it was more than a suspicion.
            judged.trigger, verdict.why = "stop", "asked to stop"
        else:
            judged.trigger = "stall"
        times = [judged.confirmed_ns] if judged.confirmed_ns else [now_ns]
    else:
        judged.trigger = "evidence"
    judged.evidence_ns = min(times, default=now_ns)
    return judged


def confirm_due(state: RunState, attempt: int, limits: Thresholds) -> int:
    """When a hang of this attempt is confirmed by itself."""
    members = members_of(state, attempt)
    onset = max((member.progress_ns for member in members if member.stalled), default=0)
    return onset + nanoseconds(confirm_s(members, limits))


def _loud(member: Member) -> bool:
    return (
        (member.silent and not member.stop_ns)
        or any(fault.fatal for fault in member.faults)
        or (bool(member.exits) and death(member) is not None)
    )


def _stalled(members: Sequence[Member], hung: bool) -> bool:
    """A hang holds everybody up: while a peer with steps still moves, one quiet rank is no hang."""
    moving = [m for m in members if m.progress_ns and (hung or not m.ended)]
    return bool(moving) and all(member.stalled for member in moving)


def _facts(state: RunState, members: Sequence[Member]) -> list[NodeFact]:
    """Node facts that fall into the life of this attempt."""
    nodes = {member.node for member in members}
    processes = {member.process for member in members}
    begin = min(member.first_ns for member in members) - 5 * SECOND_NS
    return [
        fact
        for fact in state.facts.values()
        if (fact.process in processes if fact.process else fact.node in nodes and fact.received_ns >= begin)
    ]


def _strikes(fact: NodeFact, members: Sequence[Member]) -> bool:
    """Whether a fact alone is a failure: broken hardware is, an oom-kill only with the death of a process of ours."""
    if fact.kind == "silent":
        return any(member.silent for member in members if member.node == fact.node)
    if fact.kind == "oom_kill":
        return any(member.process == fact.process and member.ended for member in members)
    alive = [member for member in members if member.node == fact.node and (not member.ended or member.received_ns >= fact.received_ns)]
    return bool(alive)


def _accounted(state: RunState, members: Sequence[Member], seen: Sequence[RankObservation], now_ns: int, limits: Thresholds) -> bool:
    ranks = {member.rank for member in members if member.rank is not None}
    absent = set(never_seen(state, members[0].attempt, now_ns, limits))
    if state.world_size is not None and len(ranks | absent) < state.world_size:
        return False
    if any(member.gap and not member.silent for member in members):
        # What is missing may be the request to stop that explains the rest.
        return False
    for one in seen:
        if one.never_seen or one.silent or one.stop_ns:
            continue
        spoke = any(fault.fatal or fault.role in ("waiting", "cascade") for fault in one.faults)
        bare = spoke and all(fault.kind == "exit" for fault in one.faults if fault.fatal)
        # A bare exit status usually has its exception on the way.
        if bare or not (spoke or one.ended):
            return False
    return True


def judge_numbers(state: RunState, attempt: int, symptom: str, limits: Thresholds) -> Judged:
    """Look at one numeric symptom of one attempt."""
    members = members_of(state, attempt)
    skews = _host_skews(state, attempt, limits)
    rows = [one for one in state.numbers.values() if one.symptom == symptom]
    by_process: dict[str, list[int]] = {}
    for at, row in enumerate(rows):
        by_process.setdefault(row.process, []).append(at)
    seen: list[NumberSeen] = []
    times: list[int] = []
    live = False
    for member in members:
        mine = [rows[at] for at in by_process.get(member.process, [])]
        opening = [row for row in mine if row.opens]
        live = live or any(not row.ended for row in opening)
        times += [row.received_ns for row in opening]
        skew = skews.get(member.node, 0)
        seen.append(
            NumberSeen(
                process=member.process,
                rank=member.rank,
                node=member.node,
                starts=[(-1 if row.step is None else row.step, row.metric, row.time_ns + skew) for row in mine],
                reports=bool(mine) or member.step is not None,
                text=min((row.text for row in mine), default=""),
            )
        )
    if not times:
        return Judged()
    verdict = first_number(symptom, seen)
    # Collectives spread it to everybody within a step: whoever has not shown it yet may still be the first.
    everyone = all(one.starts for one in seen) and len(seen) >= (state.world_size or 1)
    return Judged(verdict=verdict, trigger="evidence" if live else "recovered", evidence_ns=min(times), accounted=everyone)
