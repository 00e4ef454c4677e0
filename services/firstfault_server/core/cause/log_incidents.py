"""From what logs say to incidents: observations per rank and attempt, the verdict, and everything an incident carries.

Offline twin of the run stage: the same verdict (`first_fault.decide`), tables and wording.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from firstfault_server.core import model
from firstfault_server.core.cause.advice import AdviceRow, advice_for
from firstfault_server.core.cause.codes import CodeTables
from firstfault_server.core.cause.domains import cause_of
from firstfault_server.core.cause.first_fault import decide
from firstfault_server.core.cause.log_reader import LogSummary, Seen, leading
from firstfault_server.core.cause.observation import Fault, FaultKind, NodeFact, RankObservation, Verdict
from firstfault_server.core.cause.wording import memory_facts, title_of
from firstfault_server.core.grouping.fingerprint import fingerprint
from firstfault_server.core.grouping.groups import Told
from firstfault_server.core.grouping.normalise import without_advice

MOST_EVIDENCE: Final = 24
_DEATHS: Final = frozenset({"segfault", "killed", "exit-signal", "task-killed", "task-crashed"})
_NODE_PATTERNS: Final = {"xid": "xid", "sxid": "xid", "kernel-oom-kill": "oom_kill"}
_SEQUENCE: Final = re.compile(r"SeqNum=(?P<sequence>\d{1,12})")
_GROUP: Final = re.compile(r"PG (?:ID|GUID) ?(?P<group>[\w:.-]{1,60})|process group (?:with )?(?P<named>[\w:.-]{1,60})")
_MISSING: Final = re.compile(r"(?i)(?:missing ranks?|ranks? (?:not responding|absent)|did not (?:join|respond)|stalled ranks?)[: \[]{1,4}(?P<ranks>\d[\d, ]{0,2000})")


class Tabled(msgspec.Struct, kw_only=True, frozen=True):
    """The tables that judging needs."""

    taxonomy: model.Taxonomy
    codes: CodeTables
    advice: Sequence[AdviceRow]
    advice_marks: tuple[str, ...] = ()


def incidents_of(logs: Sequence[LogSummary], tables: Tabled) -> list[model.Incident]:
    """Incidents of one job, the one to act on first in front; [] when the logs hold no failure."""
    attempts = sorted({seen.attempt for log in logs for seen in log.seen})
    found: list[tuple[bool, int, model.Incident]] = []
    for attempt in attempts:
        case = _Case(logs, attempt, tables)
        if not case.telling:
            continue
        incident = case.incident()
        found.append((case.survived, attempt, incident))
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
        if not survived:
            kept.state, kept.resolved_why = "open", ""
        merged[key] = (earlier[0] and survived, earlier[1], kept)
    ordered = sorted(merged.values(), key=lambda item: (item[0], not item[2].page, item[2].symptom == "unknown", item[1]))
    return [incident for _, _, incident in ordered]


class _Case:
    """One attempt of the job."""

    def __init__(self, logs: Sequence[LogSummary], attempt: int, tables: Tabled) -> None:
        self._logs = logs
        self._attempt = attempt
        self._tables = tables
        self._observed: dict[tuple[int | None, str], RankObservation] = {}
        self._facts: list[NodeFact] = []
        self._by_id: dict[str, tuple[LogSummary, Seen]] = {}
        self._exceptions: dict[str, model.ExceptionInfo] = {}
        self._pids: dict[str, str] = {}
        self.telling = False
        self.survived = True
        self._gather()

    def _gather(self) -> None:
        ranks: set[int] = set()
        # Where a launcher's table says which rank died of a signal, its other lines about it add nothing.
        self._tabled = any(
            seen.reading.pattern == "exit-signal" and seen.attempt == self._attempt for log in self._logs for seen in log.seen
        )
        for log in self._logs:
            base = 0
            for seen in log.seen:
                if seen.attempt != self._attempt:
                    continue
                base = max(base, seen.time_ns or 0)
                self._take(log, seen, base + seen.line * 1000)
                if seen.order not in log.recovered:
                    self.survived = False
            ranks.update(log.ranks)
            if log.rank is not None:
                ranks.add(log.rank)
        waits = [seen for seen in self._observed.values() if any(fault.role == "waiting" for fault in seen.faults)]
        if len(waits) >= 2 and ranks:
            # Numbers run from 0: a hole among ranks that wait is a rank that said nothing.
            ranks.update(range(max(ranks) + 1))
        for rank in sorted(ranks):
            if (rank, "") not in self._observed:
                self._observed[(rank, "")] = RankObservation(rank=rank, process=f"rank {rank}")

    def _take(self, log: LogSummary, seen: Seen, time_ns: int) -> None:
        reading = seen.reading
        if not reading.symptom:
            return
        self.telling = True
        ident = f"{log.source}:{seen.line}"
        while ident in self._by_id:
            ident += "+"
        self._by_id[ident] = (log, seen)
        if seen.crash is not None:
            self._exceptions[ident] = model.ExceptionInfo(type=seen.crash.type, message=seen.crash.message)
        if reading.symptom == "unknown" and reading.weight == 0:
            return
        rank = seen.rank if seen.rank is not None else log.rank
        if self._tabled and rank is None and reading.pattern in _DEATHS:
            return
        key = (rank, "" if rank is not None else log.source)
        observed = self._observed.setdefault(key, RankObservation(rank=rank, process=f"rank {rank}" if rank is not None else log.source))
        observed.node = observed.node or seen.node
        if reading.pattern == "exit-signal" and (pid := reading.facts.get("pid")):
            self._pids[pid] = observed.process
        kind: FaultKind = "exception" if seen.crash is not None else "signal" if reading.pattern in _DEATHS else "log"
        ignored = seen.crash is not None and seen.crash.ignored
        observed.faults.append(
            Fault(
                id=ident,
                kind=kind,
                symptom=reading.symptom,
                role="unknown" if ignored else reading.role,
                time_ns=time_ns,
                received_ns=time_ns,
                text=_one_line(seen.text),
                source=ident,
                fatal=not ignored and (kind != "log" or reading.role == "initiating"),
                weight=reading.weight,
                fingerprint=reading.fingerprint.id if seen.crash is not None else "",
                stack_hash=reading.fingerprint.stack_hash,
                exception_type=seen.crash.type if seen.crash is not None else "",
                pattern=reading.pattern,
                missing=_missing(seen.text),
                place=seen.order,
            )
        )
        if kind != "log" and not ignored:
            observed.ended, observed.end = True, "failed"
        if reading.role == "teardown" and reading.symptom == "preempted":
            observed.stop_ns = min(observed.stop_ns or time_ns, time_ns)
        if reading.role == "waiting" and (number := _SEQUENCE.search(seen.text)) is not None:
            group = _GROUP.search(seen.text)
            observed.group = (group["group"] or group["named"]) if group is not None else "default"
            observed.sequence, observed.entered = int(number["sequence"]), True
        if reading.pattern in _NODE_PATTERNS:
            code = reading.facts.get("xid")
            row = self._tables.codes.lookup("xid", code) if code else None
            self._facts.append(
                NodeFact(
                    id=ident,
                    node=seen.node,
                    kind=_NODE_PATTERNS[reading.pattern],
                    symptom=reading.symptom,
                    initiates=row.own_fault if row is not None else True,
                    time_ns=time_ns,
                    received_ns=time_ns,
                    text=_one_line(seen.text),
                    code=int(code) if code else None,
                )
            )

    def incident(self) -> model.Incident:
        """The incident of this attempt."""
        return self._build(*self.judged())

    def judged(self) -> tuple[Verdict, tuple[LogSummary, Seen] | None]:
        """The verdict, and what stands for the failure."""
        observations = list(self._observed.values()) or [RankObservation(rank=None, process="job")]
        self._place_facts()
        verdict = decide(observations, facts=self._facts, exceptions=self._exceptions)
        verdict = self._without_clocks(verdict)
        lead_id = verdict.fault.id if verdict.fault is not None else verdict.fact.id if verdict.fact is not None else ""
        lead = self._by_id.get(lead_id) or self._any()
        if verdict.symptom == "unknown" and lead is not None and lead[1].reading.symptom:
            verdict.symptom = lead[1].reading.symptom
        return verdict, lead

    def _place_facts(self) -> None:
        """Kernel facts belong to the process whose pid they name; among logs without times they count as of the death they explain."""
        timed = all(log.timed for log in self._logs)
        deaths = [fault.time_ns for seen in self._observed.values() for fault in seen.faults if fault.kind == "signal"]
        for fact in self._facts:
            pid = self._by_id[fact.id][1].reading.facts.get("pid", "")
            fact.process = self._pids.get(pid, "")
            if not timed and deaths:
                fact.time_ns = fact.received_ns = min(deaths)

    def _without_clocks(self, verdict: Verdict) -> Verdict:
        """Files without times have no order among each other: two ranks with faults of their own stay candidates."""
        timed = all(log.timed for log in self._logs)
        if timed or len(self._logs) < 2 or verdict.rank is None or verdict.fact is not None:
            return verdict
        rivals = sorted(
            seen.rank
            for seen in self._observed.values()
            if seen.rank is not None and any(fault.role == "initiating" and fault.fatal for fault in seen.faults)
        )
        if len(rivals) > 1:
            verdict.rank, verdict.scope, verdict.candidates = None, "group", [verdict.rank, *(rank for rank in rivals if rank != verdict.rank)]
            verdict.not_seen.append("times that compare between the files")
        return verdict

    def _any(self) -> tuple[LogSummary, Seen] | None:
        """What stands for the case when no fault does: the most telling line."""
        return min(
            self._by_id.values(),
            key=lambda item: (leading(item[1].reading.role), -item[1].reading.weight, item[1].crash is None, item[1].line),
            default=None,
        )

    def _build(self, verdict: Verdict, lead: tuple[LogSummary, Seen] | None) -> model.Incident:
        symptom = self._tables.taxonomy.get(verdict.symptom) or self._tables.taxonomy["unknown"]
        seen = lead[1] if lead is not None else None
        exception = None
        if seen is not None and seen.crash is not None:
            exception = _told(seen)
        first = model.FirstFault(
            status="settled",
            rank=verdict.rank,
            scope=verdict.scope,
            candidates=verdict.candidates,
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
        reading_domains = [seen.reading.domains] if seen is not None else []
        incident = model.Incident(
            id=hashlib.sha256(f"{self._attempt}\n{symptom.id}\n{identity.id}".encode()).hexdigest()[:24],
            revision=1,
            tenant="default",
            run=model.RunRef(id="", attempt=self._attempt + 1, world_size=None),
            number=self._attempt + 1,
            severity=symptom.severity,
            page=symptom.page and not verdict.stopped,
            title=title_of(symptom, first, said),
            symptom=symptom.id,
            family=symptom.family,
            layer=symptom.layer,
            seen=symptom.seen,
            time_pattern=symptom.time,
            cause=cause_of(symptom.id, reading_domains, self._tables.taxonomy),
            first_fault=first,
            ranks=[model.RankRole(rank=role.rank, role=role.role, why=role.why) for role in verdict.roles if role.rank is not None],
            evidence=self._evidence(lead, verdict),
            not_seen=[*verdict.not_seen, *self._not_seen()],
            fingerprint=identity,
            advice=advice_for(symptom.id, self._tables.advice, pattern=seen.reading.pattern if seen is not None else "", facts=facts),
            attempts=[self._attempt + 1],
            opened_at=opened,
            updated_at=opened,
        )
        if self.survived:
            line = min(log.recovered[s.order] for log in self._logs for s in log.seen if s.attempt == self._attempt)
            incident.state, incident.resolved_at = "resolved", opened
            incident.resolved_why = f"training went on at line {line}"
        return incident

    def _evidence(self, lead: tuple[LogSummary, Seen] | None, verdict: Verdict) -> list[model.Evidence]:
        roles = {role.rank: role.role for role in verdict.roles if role.rank is not None}
        rest = sorted(
            (item for item in self._by_id.items() if lead is None or item[1][1] is not lead[1]),
            key=lambda item: (leading(item[1][1].reading.role), item[1][1].line),
        )
        chosen: Iterable[tuple[LogSummary, Seen]] = [*([lead] if lead is not None else []), *(item for _, item in rest)]
        evidence = []
        for log, seen in list(chosen)[:MOST_EVIDENCE]:
            rank = seen.rank if seen.rank is not None else log.rank
            role: model.Role = "initiating" if lead is not None and seen is lead[1] and verdict.certain else seen.reading.role
            if role == "initiating" and rank is not None and (lead is None or seen is not lead[1]):
                role = roles.get(rank, role)
            line = seen.last_line if seen.crash is not None else seen.line
            kind = "exception" if seen.crash is not None else "node" if seen.reading.pattern in _NODE_PATTERNS else "log"
            evidence.append(
                model.Evidence(
                    id=f"{log.source}:{line}",
                    kind=kind,
                    text=self._said(seen.text) + (f" (x{seen.count})" if seen.count > 1 else ""),
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
        return _one_line(without_advice(text, self._tables.advice_marks))

    def _advice_facts(self, seen: Seen | None, first: model.FirstFault, said: str) -> Mapping[str, str]:
        facts: dict[str, str] = {"evidence": said[:200]}
        if first.node:
            facts["node"] = first.node
        if seen is None:
            return facts
        facts.update(seen.reading.facts)
        code = self._tables.codes.lookup("xid", seen.reading.facts.get("xid", ""))
        if code is not None:
            facts["code_about"], facts["code_action"] = code.about, code.action
        if seen.crash is not None:
            facts.update(memory_facts(seen.crash.message))
        return facts

    def _not_seen(self) -> list[str]:
        absent = []
        if not any(log.kernel for log in self._logs):
            absent.append("kernel log")
        if not any(log.ranks or log.rank is not None for log in self._logs):
            absent.append("rank numbers in front of the lines")
        if len(self._logs) > 1 and not all(log.timed for log in self._logs):
            absent.append("times that compare between machines")
        if any(log.dropped for log in self._logs):
            absent.append(f"{sum(log.dropped for log in self._logs)} further lines like those shown")
        return absent


def leading_seen(log: LogSummary, tables: Tabled) -> Seen | None:
    """What stands for the failure to act on in one text; None when it holds none."""
    found = _leading(log, tables)
    return found[1] if found is not None else None


def _leading(log: LogSummary, tables: Tabled) -> tuple[str, Seen] | None:
    for attempt in sorted({seen.attempt for seen in log.seen}):
        case = _Case([log], attempt, tables)
        if case.telling:
            verdict, lead = case.judged()
            if lead is not None:
                return verdict.symptom, lead[1]
    return None


def leading_exception(log: LogSummary, tables: Tabled) -> tuple[str, Told, list[Told]]:
    """Symptom and exception of the failure to act on in one text, and its other exceptions; the symptom is empty when it holds none."""
    found = _leading(log, tables)
    if found is None:
        return "", Told(type=""), []
    symptom, first = found
    told = Told(type=first.reading.pattern, message=first.text)
    others: list[Told] = []
    for seen in log.seen:
        if seen.crash is None:
            continue
        links = [Told(type=seen.crash.type, message=seen.crash.message, frames=seen.crash.frames)]
        links += [Told(type=link.type, message=link.message, frames=link.frames) for link in seen.crash.chain]
        if seen is first:
            at = seen.reading.link if seen.reading.link < len(links) else 0
            told = links.pop(at)
            if not told.frames and at:
                told.frames = seen.crash.frames
        others += links
    return symptom, told, others


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
    return seen.reading.fingerprint if seen.crash is not None else fingerprint(seen.reading.pattern, seen.text, ())


def _one_line(text: str) -> str:
    """The first lines of a text as one, at most 400 characters."""
    return " ".join(text[:600].split())[:400]


def _missing(text: str) -> list[int]:
    found = _MISSING.search(text[:4000])
    return [int(number) for number in re.findall(r"\d{1,6}", found["ranks"])][:10_000] if found is not None else []
