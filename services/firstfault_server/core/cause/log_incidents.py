"""From what logs say to incidents: the verdict of each attempt, and everything an incident carries.

Offline twin of the run stage: the same verdict (`first_fault.decide`), tables and wording.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal

from firstfault_server.core import model
from firstfault_server.core.cause.advice import advice_for
from firstfault_server.core.cause.domains import cause_of, surroundings
from firstfault_server.core.cause.flight_recorder import FlightDump
from firstfault_server.core.cause.log_case import Case, Tabled, episode_of, episodes_of
from firstfault_server.core.cause.log_dumps import dump_evidence, missing_dumps
from firstfault_server.core.cause.log_faults import NODE_PATTERNS, one_line
from firstfault_server.core.cause.log_summary import LogSummary, Seen, leading
from firstfault_server.core.cause.observation import Verdict
from firstfault_server.core.cause.rhythm import rhythm_of
from firstfault_server.core.cause.wording import memory_facts, title_of
from firstfault_server.core.grouping.fingerprint import fingerprint
from firstfault_server.core.grouping.normalise import without_advice

MOST_EVIDENCE: Final = 24


def incidents_of(logs: Sequence[LogSummary], tables: Tabled, dumps: Sequence[FlightDump] = ()) -> list[model.Incident]:
    """Incidents of one job, the one to act on first in front; [] when the logs hold no failure.

    Flight Recorder dumps are written when a job hangs, which ends its last attempt.
    """
    episodes = episodes_of(logs) or [(0, 0)]
    last = max(episodes, key=lambda episode: (episode[1] == 0, episode))
    if dumps and last[1]:
        last = (last[0], 0)
        episodes.append(last)
    found: list[tuple[bool, int, model.Incident]] = []
    for episode in episodes:
        case = Case(logs, episode, tables, dumps if episode == last else ())
        if case.telling:
            found.append((case.survived, case.attempt, _Builder(case).incident()))
    steps: dict[tuple[str, str], list[int | None]] = {}
    merged: dict[tuple[str, str], tuple[bool, int, model.Incident]] = {}
    for survived, attempt, incident in found:
        key = (incident.symptom, incident.fingerprint.id)
        earlier = merged.get(key)
        if earlier is None:
            merged[key] = (survived, attempt, incident)
            continue
        kept = earlier[2]
        kept.recurrences += 1
        kept.attempts = [*kept.attempts, *incident.attempts]
        steps.setdefault(key, [kept.first_fault.step]).append(incident.first_fault.step)
        if not survived:
            kept.state, kept.resolved_why = "open", ""
        merged[key] = (earlier[0] and survived, earlier[1], kept)
    for key, found_at in steps.items():
        if (rhythm := rhythm_of(found_at)) is not None:
            kept = merged[key][2]
            kept.time_pattern = "periodic"
            kept.advice = [model.Advice(text=rhythm.text, because=rhythm.because), *kept.advice]
    ordered = sorted(merged.values(), key=lambda item: (item[0], not item[2].page, item[2].symptom == "unknown", item[1]))
    return [incident for _, _, incident in ordered]


class _Builder:
    """Makes the incident of one attempt."""

    def __init__(self, case: Case) -> None:
        self._case = case

    def incident(self) -> model.Incident:
        """Everything the incident carries."""
        return self._build(*self._case.judged())

    def _build(self, verdict: Verdict, lead: tuple[LogSummary, Seen] | None) -> model.Incident:
        symptom = self._case.tables.taxonomy.get(verdict.symptom) or self._case.tables.taxonomy["unknown"]
        seen = lead[1] if lead is not None else None
        exception = None
        if seen is not None and seen.crash is not None:
            exception = _told(seen)
        first = model.FirstFault(
            status="settled",
            rank=verdict.rank,
            scope=verdict.scope,
            candidates=verdict.candidates,
            step=seen.step if seen is not None else None,
            node=verdict.node or (seen.node if seen is not None else "") or None,
            time=seen.time_ns if seen is not None and seen.time_ns and seen.time_ns > 10**17 else None,
            exception=exception,
        )
        said = self._said(f"{exception.type}: {exception.message}" if exception is not None else seen.text if seen is not None else "")
        facts = self._advice_facts(seen, first, said)
        if seen is not None and seen.reading.role in ("waiting", "cascade") and verdict.why:
            said = verdict.why
        identity = _identity(seen) if seen is not None else model.Fingerprint()
        opened = first.time or 0
        reading_domains: list[Mapping[str, float]] = [seen.reading.domains] if seen is not None else []
        # Waiting alike says nothing about whose problem it is.
        scope = verdict.scope if verdict.certain else "rank"
        reading_domains += surroundings(fact=verdict.fact is not None, scope=scope, other_process="other_process" in facts)
        incident = model.Incident(
            id=hashlib.sha256(f"{self._case.attempt}\n{symptom.id}\n{identity.id}".encode()).hexdigest()[:24],
            revision=1,
            tenant="default",
            run=model.RunRef(id="", attempt=self._case.attempt + 1, world_size=None),
            number=self._case.attempt + 1,
            severity=symptom.severity,
            page=symptom.page and not verdict.stopped and not self._case.survived,
            title=title_of(symptom, first, said),
            symptom=symptom.id,
            family=symptom.family,
            layer=symptom.layer,
            seen=symptom.seen,
            time_pattern=symptom.time,
            cause=cause_of(symptom.id, reading_domains, self._case.tables.taxonomy),
            first_fault=first,
            ranks=[model.RankRole(rank=role.rank, role=role.role, why=role.why) for role in verdict.roles if role.rank is not None],
            evidence=self._evidence(lead, verdict),
            not_seen=[*verdict.not_seen, *self._not_seen()],
            fingerprint=identity,
            advice=advice_for(symptom.id, self._case.tables.advice, pattern=seen.reading.pattern if seen is not None else "", facts=facts),
            attempts=[self._case.attempt + 1],
            opened_at=opened,
            updated_at=opened,
        )
        if self._case.survived:
            mine = (self._case.attempt, self._case.survived_at)
            line = min(one.survived for log in self._case.logs for one in log.seen if episode_of(one, self._case.logs) == mine)
            incident.state, incident.resolved_at = "resolved", opened
            incident.resolved_why = f"training went on at line {line}"
        return incident

    def _evidence(self, lead: tuple[LogSummary, Seen] | None, verdict: Verdict) -> list[model.Evidence]:
        roles = {role.rank: role.role for role in verdict.roles if role.rank is not None}
        rest = sorted(
            (item for item in self._case.by_id.items() if lead is None or item[1][1] is not lead[1]),
            key=lambda item: (leading(item[1][1].reading.role), item[1][1].line),
        )
        chosen: Iterable[tuple[LogSummary, Seen]] = [*([lead] if lead is not None else []), *(item for _, item in rest)]
        evidence = []
        evidence += dump_evidence(self._case.dumps, verdict)
        for log, seen in list(chosen)[:MOST_EVIDENCE]:
            rank = seen.rank if seen.rank is not None else log.rank
            role: model.Role = "initiating" if lead is not None and seen is lead[1] and verdict.certain else seen.reading.role
            if role == "initiating" and rank is not None and (lead is None or seen is not lead[1]):
                role = roles.get(rank, role)
            line = seen.last_line if seen.crash is not None else seen.line
            kind: Literal["exception", "node", "log"] = "node" if seen.reading.pattern in NODE_PATTERNS else "log"
            if seen.crash is not None:
                kind = "exception"
            evidence.append(
                model.Evidence(
                    id=f"{log.source}:{line}",
                    kind=kind,
                    text=self._said(seen.text) + _place(seen) + (f" (x{seen.count})" if seen.count > 1 else ""),
                    rank=rank,
                    node=seen.node,
                    time=seen.time_ns if seen.time_ns and seen.time_ns > 10**17 else None,
                    source=f"{log.source}:{line}",
                    role=role,
                )
            )
        return evidence

    def _said(self, text: str) -> str:
        """A text as evidence shows it: one line, without the library's advice."""
        return one_line(without_advice(text, self._case.tables.advice_marks))

    def _advice_facts(self, seen: Seen | None, first: model.FirstFault, said: str) -> Mapping[str, str]:
        facts: dict[str, str] = {"evidence": said[:200]}
        if first.node:
            facts["node"] = first.node
        if seen is None:
            return facts
        facts.update(seen.reading.facts)
        code = self._case.tables.codes.lookup("xid", seen.reading.facts.get("xid", ""))
        if code is not None:
            facts["code_about"], facts["code_action"] = code.about, code.action
        if seen.crash is not None:
            facts.update(memory_facts(seen.crash.message))
        return facts

    def _not_seen(self) -> list[str]:
        absent = missing_dumps(self._case.dumps)
        if not any(log.kernel for log in self._case.logs):
            absent.append("kernel log")
        if not any(log.ranks or log.rank is not None for log in self._case.logs):
            absent.append("rank numbers in front of the lines")
        if len(self._case.logs) > 1 and not all(log.timed for log in self._case.logs):
            absent.append("times that compare between machines")
        if any(log.dropped for log in self._case.logs):
            absent.append(f"{sum(log.dropped for log in self._case.logs)} further lines like those shown")
        return absent


def _place(seen: Seen) -> str:
    """Where an exception was raised: the innermost frame of one's own code, else the innermost of all."""
    frames = seen.crash.frames if seen.crash is not None else []
    if not frames:
        return ""
    frame = next((one for one in reversed(frames) if one.in_app), frames[-1])
    return f" at {frame.file[-200:]}:{frame.line} in {frame.function}"


def _told(seen: Seen) -> model.ExceptionInfo:
    """The exception that gave the symptom: the member of the chain that the reading rests on."""
    crash = seen.crash
    assert crash is not None
    link = seen.reading.link
    if 0 < link <= len(crash.chain) and crash.chain[link - 1].type:
        return model.ExceptionInfo(type=crash.chain[link - 1].type, message=crash.chain[link - 1].message)
    return model.ExceptionInfo(type=crash.type, message=crash.message)


def _identity(seen: Seen) -> model.Fingerprint:
    """An exception's own fingerprint; of a line, its pattern and parameterised text."""
    return seen.reading.fingerprint if seen.crash is not None else fingerprint(seen.reading.pattern, seen.text, seen.native[::-1])
