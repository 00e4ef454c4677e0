"""Incidents as people and stores see them, made from episodes; a revision only when something other than the clock changed."""

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final

import msgspec

from firstfault_server.core import model
from firstfault_server.core.cause.advice import AdviceRow, advice_for
from firstfault_server.core.cause.codes import CodeTables
from firstfault_server.core.cause.domains import cause_of, surroundings
from firstfault_server.core.cause.observation import Fault, Verdict
from firstfault_server.core.cause.wording import memory_facts
from firstfault_server.core.incident import OPEN
from firstfault_server.core.model import SECOND_NS
from firstfault_server.core.stages.ids import digest
from firstfault_server.core.stages.run_state import Episode, Issue, Member, RunState
from firstfault_server.core.stages.run_title import title_of
from firstfault_server.core.stages.run_verdicts import death, members_of, silence
from firstfault_server.core.thresholds import Thresholds

_UNKNOWN: Final = model.Symptom(
    id="unknown",
    layer="system",
    seen="implicit",
    time="instant",
    family="unknown",
    severity="error",
    page=True,
    domains={"unknown": 1.0},
    about="",
)
_XID: Final = re.compile(r"\bXid \([^)\n]{1,40}\):? (?P<xid>\d{1,4})\b")
_KINDS: Final[dict[str, str]] = {"exit": "signal"}
_ROLE_ORDER: Final = {"initiating": 0, "waiting": 1, "cascade": 2, "unknown": 3, "teardown": 4}


class Renderer:
    """Turns the episodes of a run into incidents."""

    def __init__(self, thresholds: Thresholds, taxonomy: model.Taxonomy, advice: Sequence[AdviceRow], codes: CodeTables) -> None:
        self._limits = thresholds
        self._taxonomy = taxonomy
        self._advice = advice
        self._codes = codes

    def incidents(self, state: RunState, now_ns: int) -> list[model.Incident]:
        """New revisions of the incidents that changed."""
        out: list[model.Incident] = []
        by_number: dict[int, list[Episode]] = {}
        for episode in state.episodes:
            if episode.number:
                by_number.setdefault(episode.number, []).append(episode)
        for number in sorted(by_number.keys() | state.issues.keys()):
            episodes = sorted(by_number.get(number, []), key=lambda one: one.attempt)
            issue = state.issues.get(number)
            incident = self._incident(state, number, episodes, issue, now_ns)
            if incident is None:
                continue
            if issue is not None and _same(issue.last, incident):
                continue
            incident.revision = issue.last.revision + 1 if issue is not None else 1
            state.issues[number] = Issue(number=number, last=incident, steps=issue.steps if issue is not None else [])
            state.moved = True
            out.append(incident)
        return out

    def _incident(self, state: RunState, number: int, episodes: list[Episode], issue: Issue | None, now_ns: int) -> model.Incident | None:
        standing = [one for one in episodes if one.life != "withdrawn"]
        if not standing:
            return _closed(issue, episodes, now_ns)
        episode = standing[-1]
        if episode.attempt <= state.dropped_attempts:
            return _aged(issue, episode, now_ns)
        verdict = episode.verdict
        assert verdict is not None
        row = self._taxonomy.get(verdict.symptom) or self._taxonomy.get("unknown") or _UNKNOWN
        members = members_of(state, episode.attempt)
        first = state.members.get(verdict.process)
        resolved = episode.life not in OPEN
        suspected = verdict.symptom == "hang" and not episode.confirmed_ns
        pattern_text = _periodic(standing)
        evidence = self._evidence(state, episode, verdict, members)
        if pattern_text:
            evidence.insert(1, _pattern_row(state, number, pattern_text))
        pattern = verdict.fault.pattern if verdict.fault is not None else ""
        facts = _facts(verdict, first, evidence, self._codes)
        # Waiting alike says nothing about whose problem it is.
        scope = verdict.scope if verdict.certain else "rank"
        domains: list[Mapping[str, float]] = [_domains(state, verdict)]
        domains += surroundings(fact=verdict.fact is not None, scope=scope, other_process="other_process" in facts)
        attempts = sorted({one.attempt for one in standing} | set(issue.last.attempts if issue is not None else []))
        return model.Incident(
            id=digest("incident", state.tenant, state.run, number),
            revision=0,
            tenant=state.tenant,
            run=_run_ref(state, episode.attempt, members),
            number=number,
            state="resolved" if resolved else "open",
            severity="warning" if suspected else row.severity,
            page=any(one.page for one in standing),
            title=title_of(state, episode, verdict, first, suspected),
            symptom=verdict.symptom,
            family=row.family,
            layer=row.layer,
            seen=row.seen,
            time_pattern="periodic" if pattern_text else row.time,
            cause=cause_of(verdict.symptom, domains, self._taxonomy),
            first_fault=self._first_fault(episode, verdict, first),
            ranks=[model.RankRole(rank=one.rank, role=one.role, why=one.why) for one in verdict.roles],
            evidence=evidence,
            not_seen=_not_seen(state, verdict, first),
            fingerprint=episode.fingerprint,
            impact=_impact(state, episode, members, now_ns),
            advice=advice_for(verdict.symptom, self._advice, pattern=pattern, facts=facts),
            recurrences=max(len(attempts) - 1, 0),
            attempts=attempts,
            opened_at=min((one.evidence_ns for one in standing), default=now_ns) if issue is None else issue.last.opened_at,
            updated_at=now_ns,
            resolved_at=episode.ended_ns if resolved else None,
            resolved_why=episode.why if resolved else "",
        )

    def _first_fault(self, episode: Episode, verdict: Verdict, first: Member | None) -> model.FirstFault:
        fault = verdict.fault
        fact = verdict.fact
        named = first is not None
        return model.FirstFault(
            status="settled" if episode.settled_ns else "provisional",
            rank=verdict.rank,
            scope=verdict.scope,
            candidates=verdict.candidates,
            local_rank=first.local_rank if first is not None else None,
            node=verdict.node or (first.node if first is not None else "") or None,
            gpu_uuid=(first.gpu_uuid if first is not None else "") or (fact.gpu_uuid if fact is not None else "") or None,
            pid=first.pid if first is not None else None,
            process=verdict.process or None,
            phase=((fault.phase if fault is not None else "") or (first.phase if first is not None else "")) or None,
            step=episode.fault_step,
            time=episode.onset_ns or None,
            exception=verdict.exception,
            trace_id=(fault.trace_id if fault is not None else "") or None,
            stderr_tail=list(first.tail) if named and first is not None else [],
        )

    def _evidence(self, state: RunState, episode: Episode, verdict: Verdict, members: Sequence[Member]) -> list[model.Evidence]:
        roles = {one.process: one.role for one in verdict.roles}
        rows: list[tuple[tuple[int, int, str], model.Evidence]] = []
        for member in members:
            role = roles.get(member.process, "unknown")
            faults: list[Fault] = list(member.faults)
            if (end := death(member)) is not None:
                faults.append(end)
            if member.silent and not member.stop_ns:
                faults.append(silence(state, member, self._limits))
            for fault in faults:
                row = model.Evidence(
                    id=fault.id,
                    kind=_KINDS.get(fault.kind, fault.kind),  # type: ignore[arg-type]
                    text=fault.text,
                    rank=member.rank,
                    node=member.node,
                    time=fault.time_ns,
                    source=fault.source,
                    role=fault.role if fault.role != "unknown" else role,
                )
                rows.append(((_ROLE_ORDER[role], fault.time_ns, fault.id), row))
        for fact in state.facts.values():
            if fact.node in {member.node for member in members} or fact.process in roles:
                role = "initiating" if verdict.fact is not None and fact.id == verdict.fact.id else "unknown"
                fact_row = model.Evidence(
                    id=fact.id,
                    kind="node",
                    text=fact.text,
                    node=fact.node,
                    time=fact.time_ns,
                    source="kernel",
                    role=role,
                )
                rows.append(((0 if role == "initiating" else 3, fact.time_ns, fact.id), fact_row))
        for number in state.numbers.values():
            if number.process in roles and (episode.kind == "failure" or number.symptom == episode.symptom):
                role = roles[number.process]
                who = state.members[number.process]
                number_row = model.Evidence(
                    id=number.id,
                    kind="metric",
                    text=number.text,
                    rank=who.rank,
                    node=who.node,
                    time=number.time_ns,
                    source=number.metric,
                    role=role,
                )
                rows.append(((_ROLE_ORDER[role], number.time_ns, number.id), number_row))
        if verdict.symptom == "hang":
            rows.append(((0, episode.onset_ns, ""), _stall_row(state, members, verdict)))
        rows.sort(key=lambda one: one[0])
        return [row for _, row in rows[: self._limits.evidence_per_incident]]


def _stall_row(state: RunState, members: Sequence[Member], verdict: Verdict) -> model.Evidence:
    since = max((member.progress_ns for member in members if member.progress_ns), default=0)
    step = max((member.step for member in members if member.step is not None), default=None)
    text = "no progress" + (f" since step {step}" if step is not None else "") + (f": {verdict.why}" if verdict.why else "")
    return model.Evidence(
        id=digest("stall", state.tenant, state.run, since),
        kind="metric",
        text=text,
        rank=verdict.rank,
        time=since,
        source="train.step",
        role="initiating",
    )


def _periodic(episodes: Sequence[Episode]) -> str:
    """Words for a failure that returns at the same step, or every so many steps, over attempts; empty when it does not."""
    steps = [(one.attempt, one.fault_step) for one in episodes if one.fault_step is not None]
    if len(steps) < 2:
        return ""
    gaps = {after[1] - before[1] for before, after in pairwise(steps)}
    attempts = ", ".join(str(attempt) for attempt, _ in steps[-5:])
    if gaps == {0}:
        return f"failed at step {steps[-1][1]} in attempts {attempts}"
    if len(steps) > 2 and len(gaps) == 1:
        return f"failed every {gaps.pop()} steps in attempts {attempts}, last at step {steps[-1][1]}"
    return ""


def _pattern_row(state: RunState, number: int, text: str) -> model.Evidence:
    return model.Evidence(
        id=digest("pattern", state.tenant, state.run, number), kind="metric", text=text, source="attempts", role="unknown"
    )


def _same(one: model.Incident, other: model.Incident) -> bool:
    return _timeless(one) == _timeless(other)


def _timeless(incident: model.Incident) -> bytes:
    """The incident without what the clock alone moves."""
    still = msgspec.structs.replace(incident, revision=0, updated_at=0, impact=model.Impact(), history=model.History())
    return msgspec.msgpack.encode(still)


def _closed(issue: Issue | None, episodes: Sequence[Episode], now_ns: int) -> model.Incident | None:
    """An incident whose evidence dissolved."""
    if issue is None or issue.last.state == "resolved":
        return None
    why = episodes[-1].why if episodes else "counted with the incident that has the same fingerprint"
    return msgspec.structs.replace(issue.last, state="resolved", resolved_at=now_ns, resolved_why=f"withdrawn: {why}", updated_at=now_ns)


def _aged(issue: Issue | None, episode: Episode, now_ns: int) -> model.Incident | None:
    """An incident whose attempt is no longer kept: only its state may still change."""
    if issue is None or (issue.last.state == "resolved") == (episode.life not in OPEN):
        return None
    return msgspec.structs.replace(issue.last, state="resolved", resolved_at=episode.ended_ns, resolved_why=episode.why, updated_at=now_ns)


def _run_ref(state: RunState, attempt: int, members: Sequence[Member]) -> model.RunRef:
    return model.RunRef(
        id=state.run,
        attempt=attempt,
        name=state.name,
        owner=state.owner,
        job_id=state.job_id,
        command=state.command,
        log_paths=state.log_paths,
        world_size=state.world_size,
        nodes=sorted({member.node for member in members if member.node}),
    )


def _domains(state: RunState, verdict: Verdict) -> dict[str, float]:
    if verdict.fault is None:
        return {}
    for member in state.members.values():
        if verdict.fault.id in member.domains:
            return member.domains[verdict.fault.id]
    return {}


def _facts(verdict: Verdict, first: Member | None, evidence: Sequence[model.Evidence], codes: CodeTables) -> dict[str, str]:
    """What advice may rest on."""
    facts = {"node": verdict.node or (first.node if first is not None else ""), "evidence": evidence[0].text if evidence else ""}
    xid = str(verdict.fact.code) if verdict.fact is not None and verdict.fact.code is not None else _said_xid(verdict)
    if xid:
        facts["xid"] = xid
        if (code := codes.lookup("xid", facts["xid"])) is not None:
            facts["code_about"], facts["code_action"] = code.about, code.action
    elif verdict.exception is not None:
        facts.update(memory_facts(verdict.exception.message))
    elif verdict.fault is not None:
        facts.update(memory_facts(verdict.fault.text))
    return facts


def _said_xid(verdict: Verdict) -> str:
    """The Xid that the leading line itself names, as a driver's message in a rank's own output does; empty for none."""
    said = _XID.search(verdict.fault.text) if verdict.fault is not None and verdict.fault.pattern == "xid" else None
    return said["xid"] if said is not None else ""


def _not_seen(state: RunState, verdict: Verdict, first: Member | None) -> list[str]:
    missing = list(verdict.not_seen)
    node = verdict.node or (first.node if first is not None else "")
    unexplained = verdict.symptom in ("process_killed", "process_crashed", "node_failure", "hang") and node
    if unexplained and not any(fact.node == node and fact.kind != "silent" for fact in state.facts.values()):
        missing.append(f"kernel log of node {node}: nothing was received from it")
    if first is not None and first.stderr.startswith("not_seen"):
        missing.append(f"stderr of rank {first.rank}: {first.stderr.partition(':')[2].strip() or 'not a file'}")
    if verdict.symptom in ("hang", "collective_timeout") and not any(member.group for member in state.members.values()):
        missing.append("collective state: no sequence numbers were sent")
    return missing


def _impact(state: RunState, episode: Episode, members: Sequence[Member], now_ns: int) -> model.Impact:
    """World size stands for GPUs; idle from the failure to the next attempt, the end, or now."""
    gpus = state.world_size or len([member for member in members if member.rank is not None]) or None
    started = state.attempts_started_ns[episode.attempt] if episode.attempt < len(state.attempts_started_ns) else 0
    end = started or episode.ended_ns or now_ns
    idle = max(0.0, (end - episode.onset_ns) / SECOND_NS) if episode.onset_ns else None
    checkpoint = max((member.checkpoint for member in members if member.checkpoint is not None), default=None)
    lost = None if checkpoint is None or episode.fault_step is None else max(0, episode.fault_step - checkpoint)
    return model.Impact(
        gpus=gpus,
        idle_s=round(idle, 3) if idle is not None else None,
        gpu_hours_lost=round(gpus * idle / 3600, 4) if gpus is not None and idle is not None else None,
        last_checkpoint_step=checkpoint,
        steps_lost=lost,
    )
