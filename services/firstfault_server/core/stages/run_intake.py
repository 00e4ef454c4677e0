"""Records into the run's state: each one adds, nothing is judged here, and the order they come in leaves no trace."""

from typing import Final

from firstfault import conventions as names
from firstfault.stack import clipped
from firstfault_server.core import model
from firstfault_server.core.cause.exits import ending
from firstfault_server.core.cause.observation import Fault, NodeFact
from firstfault_server.core.incident import OPEN
from firstfault_server.core.model import SECOND_NS
from firstfault_server.core.stages import bounds
from firstfault_server.core.stages.run_state import Exit, Member, NumberFault, RunState, Text
from firstfault_server.core.stages.worker_events import SEVERITY_FATAL, TAIL_LINE, integer
from firstfault_server.core.thresholds import Thresholds

_TAIL_LINES: Final = 200
_LINE: Final = 300
_EXITS: Final = 4
_FACTS: Final = 200
_NUMBERS: Final = 100_000


def member_of(state: RunState, who: model.Identity, time_ns: int, received_ns: int) -> Member:
    """The process that speaks, made known if it is new."""
    member = state.members.get(who.process)
    if member is None:
        member = state.members[who.process] = Member(process=who.process, first_ns=received_ns, started_ns=who.started_ns or time_ns)
        state.unassigned = state.moved = True
        _describe(state, who)
    elif received_ns < member.first_ns:
        member.first_ns = received_ns
    if who.started_ns is None and time_ns and time_ns < member.started_ns:
        member.started_ns = time_ns
    member.rank, member.local_rank, member.node, member.stage = who.rank, who.local_rank, who.node, bounds.name(who.stage)
    member.role, member.pid, member.gpu_uuid = bounds.name(who.role), who.pid, who.gpu_uuid
    member.received_ns = max(member.received_ns, received_ns)
    state.first_ns = min(state.first_ns or received_ns, received_ns)
    state.last_ns = max(state.last_ns, received_ns)
    return member


def _describe(state: RunState, who: model.Identity) -> None:
    """Facts about the run, from whichever process knows them; of two answers the greater one, whoever came first."""
    state.name, state.owner = max(state.name, bounds.name(who.run_name)), max(state.owner, bounds.name(who.owner))
    state.job_id, state.launcher = max(state.job_id, bounds.name(who.job_id)), max(state.launcher, bounds.name(who.launcher))
    if who.role == "trainer" or not state.command:
        state.command = max(state.command, clipped(who.command, bounds.LONGEST_TEXT))
    if who.world_size is not None:
        state.world_size = max(state.world_size or 0, who.world_size)
    state.log_paths = sorted({*state.log_paths, *map(bounds.path, who.log_paths)})[:32]


def take_summary(state: RunState, record: model.Summary) -> Member:
    """Where a process stands; an older summary changes only what is a maximum."""
    member = member_of(state, record.identity, record.time_ns, record.received_ns)
    if member.silent or (member.stalled and record.progress_ns > member.progress_ns):
        state.dirty = True
    before = (member.step, member.group, member.sequence, member.collective, member.phase)
    newer = (record.received_ns, record.time_ns, record.step or -1) >= (member.received_ns, member.time_ns, member.step or -1)
    member.heartbeat_ns = max(member.heartbeat_ns, record.heartbeat_ns)
    if record.step is not None and (member.step is None or record.step > member.step):
        member.step = record.step
        state.moved = True
    member.progress_ns = max(member.progress_ns, record.progress_ns)
    member.time_ns = max(member.time_ns, record.time_ns)
    if newer:
        phase = bounds.name(record.phase)
        state.moved = state.moved or member.phase != phase
        member.phase, member.phase_expect_s = phase, record.phase_expect_s
        member.pause_p99_s, member.skew_ns = record.pause_p99_s, record.skew_ns
        member.group, member.sequence = bounds.name(record.collective_group), record.collective_seq
        member.collective = bounds.name(record.collective_state)
        member.checkpoint = record.checkpoint_step
        # A verdict may have waited for just this.
        state.dirty = state.dirty or (member.gap and not record.gap and any(one.life == "provisional" for one in state.episodes))
        member.gap = record.gap
    if before != (member.step, member.group, member.sequence, member.collective, member.phase):
        # Where the ranks stand is evidence while a failure of theirs is open; so is that a rank reports numbers at all.
        state.dirty = state.dirty or any(
            one.attempt == member.attempt and one.life in OPEN and (one.kind == "failure" or before[0] is None) for one in state.episodes
        )
    if record.longest_pause_s is not None:
        member.longest_pause_s = max(member.longest_pause_s or 0.0, record.longest_pause_s)
    return member


def take_event(state: RunState, event: model.Event, limits: Thresholds) -> None:
    """An exception, an exit record, a telling line or a collective that names absent ranks."""
    member = member_of(state, event.identity, event.time_ns, event.received_ns)
    if event.event_name == names.EXIT:
        _take_exit(state, member, event, limits)
    elif event.event_name == names.EXCEPTION and event.exception is not None:
        if event.text_role == "teardown" and event.symptom == "preempted":
            _stop(state, member, event.time_ns)
        _keep_text(state, event, limits)
        origin = str(event.attributes.get(names.EXCEPTION_ORIGIN, ""))
        fatal = bool(event.attributes.get(names.EXCEPTION_FATAL, event.severity >= SEVERITY_FATAL)) and origin != "thread"
        kind, message = bounds.name(event.exception.type), event.exception.message
        text = f"{kind}: {message}" if message else kind
        _add(state, member, _fault(event, "exception", text, fatal), event, limits)
    elif event.event_name == names.COLLECTIVE:
        missing = event.attributes.get(names.COLLECTIVE_MISSING)
        ranks = sorted(rank for one in missing if (rank := integer(one)) is not None) if isinstance(missing, list) else []
        _add(state, member, _fault(event, "log", event.body or f"ranks {ranks} are absent", False, ranks), event, limits)
    elif event.event_name == names.LOG and event.symptom:
        _add(state, member, _fault(event, "log", event.body, False), event, limits)


def _fault(event: model.Event, kind: str, text: str, fatal: bool, missing: list[int] | None = None) -> Fault:
    source = bounds.path(str(event.attributes.get(names.LOG_PATH, "")) or event.event_name)
    return Fault(
        id=event.id,
        kind="exception" if kind == "exception" else "log",
        symptom=event.symptom,
        role=event.text_role,
        time_ns=event.time_ns,
        received_ns=event.received_ns,
        text=_one_line(text),
        source=source,
        fatal=fatal,
        weight=event.text_weight,
        fingerprint=event.fingerprint,
        stack_hash=event.stack_hash,
        exception_type=bounds.name(event.exception.type) if event.exception is not None else "",
        pattern=event.text_pattern,
        step=event.step,
        phase=bounds.name(event.phase),
        trace_id=event.trace_id,
        missing=missing or [],
    )


def _add(state: RunState, member: Member, fault: Fault, event: model.Event, limits: Thresholds) -> None:
    """Keep the faults that matter most: what ended the process, then the earliest."""
    if any(known.id == fault.id for known in member.faults):
        return
    member.faults.append(fault)
    if event.text_domains:
        member.domains[fault.id] = event.text_domains
    member.faults.sort(key=lambda one: (not one.fatal, one.time_ns, one.id))
    for dropped in member.faults[limits.faults_per_process :]:
        member.domains.pop(dropped.id, None)
    del member.faults[limits.faults_per_process :]
    state.dirty = state.moved = True


def _take_exit(state: RunState, member: Member, event: model.Event, limits: Thresholds) -> None:
    attributes = event.attributes
    record = Exit(
        id=event.id,
        time_ns=event.time_ns,
        received_ns=event.received_ns,
        state=bounds.name(str(attributes.get(names.EXIT_STATE, ""))),
        code=integer(attributes.get(names.EXIT_CODE)),
        signal=integer(attributes.get(names.EXIT_SIGNAL)),
        source=bounds.name(str(attributes.get(names.EXIT_SOURCE, ""))),
        reason=_one_line(str(attributes.get(names.EXIT_REASON, ""))),
    )
    if any(known.id == record.id for known in member.exits):
        return
    member.exits.append(record)
    member.exits.sort(key=lambda one: (one.time_ns, one.id))
    del member.exits[_EXITS:]
    if ending(record.state, record.code, record.signal).kind == "stop":
        _stop(state, member, event.time_ns)
    tail = attributes.get(names.STDERR_TAIL)
    if isinstance(tail, list) and tail and not member.tail:
        member.tail = [_one_line(str(line)) for line in tail[-_TAIL_LINES:]]
    member.stderr = max(member.stderr, bounds.path(str(attributes.get(names.STDERR_STATUS, ""))))
    if event.symptom and TAIL_LINE in attributes:
        line = _fault(event, "log", str(attributes[TAIL_LINE]), False)
        line.id, line.source = event.id + ".tail", "stderr"
        _add(state, member, line, event, limits)
    state.dirty = state.moved = True


def _stop(state: RunState, member: Member, time_ns: int) -> None:
    if not member.stop_ns or time_ns < member.stop_ns:
        member.stop_ns = time_ns
        state.dirty = True


def _keep_text(state: RunState, event: model.Event, limits: Thresholds) -> None:
    """Whole stacks of the exceptions most likely to be shown: of each attempt the earliest that are no reactions come first."""
    assert event.exception is not None
    fatal = event.severity >= SEVERITY_FATAL
    reaction = event.text_role in ("cascade", "waiting", "teardown")
    state.texts[event.id] = Text(event.identity.process, reaction, fatal, event.time_ns, bounds.exception(event.exception))
    if len(state.texts) > limits.texts_per_attempt * limits.attempts_kept:
        del state.texts[max(state.texts, key=lambda one: _worth(state, one))]


def _worth(state: RunState, text_id: str) -> tuple[int, bool, bool, int, str]:
    """Lowest: worth most. The newest attempts are the ones whose verdict may still change."""
    text = state.texts[text_id]
    member = state.members.get(text.process)
    age = state.attempt - (member.attempt or state.attempt) if member is not None else 1 << 30
    return (age, text.reaction, not text.fatal, text.time_ns, text_id)


def take_fact(state: RunState, record: model.NodeFault) -> None:
    """A kernel-level fact about a node of this run."""
    state.last_ns = max(state.last_ns, record.received_ns)
    state.facts[record.id] = NodeFact(
        id=record.id,
        node=record.node,
        kind=record.kind,
        symptom=record.symptom,
        initiates=record.initiates,
        process=record.process,
        time_ns=record.time_ns,
        received_ns=record.received_ns,
        text=_one_line(record.text),
        code=record.code,
        gpu_uuid=bounds.name(record.gpu_uuid),
    )
    if len(state.facts) > _FACTS:
        del state.facts[min(state.facts, key=lambda one: (state.facts[one].received_ns, one))]
    state.dirty = True


def take_finding(state: RunState, record: model.Finding) -> None:
    """A detector's statement; the newest per process, detector and metric stands, its end closes it."""
    member_of(state, record.identity, record.time_ns, record.received_ns)
    key = f"{record.identity.process} {record.detector} {record.metric}"
    known = state.numbers.get(key)
    order = (record.time_ns, record.ended)
    if known is not None and (known.time_ns, known.ended) >= order:
        return
    if known is None and len(state.numbers) >= _NUMBERS:
        return
    state.numbers[key] = NumberFault(
        process=record.identity.process,
        detector=record.detector,
        symptom=record.symptom,
        metric=record.metric,
        time_ns=record.time_ns,
        received_ns=record.received_ns,
        step=record.step if not record.ended or known is None else known.step,
        text=record.text if not record.ended or known is None else known.text,
        opens=record.opens,
        ended=record.ended,
        id=record.id,
    )
    state.dirty = True


def on_hole(state: RunState, hole_ns: int, now_ns: int, limits: Thresholds) -> None:
    """Deadlines that began before the hole move by its length and some grace."""
    state.pardons = [*state.pardons, (now_ns, hole_ns + round(limits.hole_grace_s * SECOND_NS))][-8:]


def _one_line(text: str) -> str:
    """Training logs are written by anybody: one line, bounded, without control characters."""
    line = " ".join(text.split())[:_LINE]
    return line if line.isprintable() else "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in line)
