"""What came out, in the form in which the hosts must agree, and what the embedded host's rules make of the records of a topic."""

import math
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import msgspec

from firstfault_server.core import model
from firstfault_server.core.stages.protocol import Stage
from firstfault_server.detect.keyed import KeyedStages
from firstfault_server.detect.rules import dead_letter
from firstfault_server.ports import LogEntry
from firstfault_server.wire.identity import Identities
from firstfault_server.wire.otlp import Unreadable, decode
from tests.property.scripts import same

RecordT = TypeVar("RecordT")
Incident = tuple[object, ...]
RollupKey = tuple[str, str, str, str, str, int, str]


class Outcome(msgspec.Struct, kw_only=True):
    """Everything by tenant or key."""

    incidents: dict[str, list[Incident]]
    """By tenant: what makes incidents the same, of their last revisions."""
    events: dict[str, model.Event]
    findings: dict[str, model.Finding]
    rollups: dict[RollupKey, model.Rollup]
    runs: dict[tuple[str, str], model.RunStatus]
    letters: dict[str, model.DeadLetter]

    def silent(self, tenant: str) -> list[str]:
        """Ranks of a tenant's runs that are not what they should be at the end of a quiet job."""
        return [
            f"{rank.rank}: {rank.state}"
            for run in self.runs.values()
            if run.tenant == tenant
            for rank in run.ranks
            if rank.state != "running"
        ]


def outcome(records: Iterable[Any]) -> Outcome:
    """The records of the output topics, or of the embedded host. Of what was written again the later counts, as in the stores."""
    found = list(records)
    last: dict[str, model.Incident] = {}
    for incident in of(model.Incident, found):
        if incident.id not in last or last[incident.id].revision <= incident.revision:
            last[incident.id] = incident
    incidents: dict[str, list[Incident]] = {}
    for incident in sorted(last.values(), key=lambda one: one.id):
        incidents.setdefault(incident.tenant, []).append((*same(incident), incident.page, incident.resolved_why))
    runs: dict[tuple[str, str], model.RunStatus] = {}
    for run in of(model.RunStatus, found):
        known = runs.get((run.tenant, run.run))
        if known is None or known.revision <= run.revision:
            runs[run.tenant, run.run] = run
    return Outcome(
        incidents=incidents,
        events={event.id: event for event in of(model.Event, found)},
        findings={finding.id: finding for finding in of(model.Finding, found)},
        rollups={_key(rollup): rollup for rollup in of(model.Rollup, found)},
        runs=runs,
        letters={letter.id: letter for letter in of(model.DeadLetter, found)},
    )


def embedded(stages: dict[str, Stage[Any]], entries: Sequence[tuple[str, LogEntry]]) -> Outcome:
    """What the embedded host makes of log entries, each with its position."""
    engine, known = KeyedStages(stages), Identities()
    for position, entry in entries:
        engine.advance(entry.received_ns)
        try:
            batches = decode(entry, position, known)
        except Unreadable as error:
            letter = dead_letter(entry.tenant, entry.received_ns, str(error), entry.signal, entry.body, position)
            engine.output.dead_letters.append(letter)
            continue
        for batch in batches:
            engine.give("worker", batch, entry.received_ns)
    out = engine.output
    return outcome([*out.rollups, *out.events, *out.findings, *out.incidents, *out.runs.values(), *out.dead_letters])


def of(kind: type[RecordT], records: Iterable[Any]) -> list[RecordT]:
    """The records of one kind."""
    return [record for record in records if isinstance(record, kind)]


def changed(records: Iterable[Any]) -> list[object]:
    """Rollups, events and findings that were there before and said something else, at most a few."""
    first: dict[object, Any] = {}
    found: list[object] = []
    for record in records:
        if isinstance(record, model.Rollup | model.Event | model.Finding):
            key = _key(record) if isinstance(record, model.Rollup) else (type(record), record.id)
            if not _alike(first.setdefault(key, record), record):
                found.append(record)
    return found[:5]


def differences(found: dict[Any, Any], wanted: dict[Any, Any]) -> list[str]:
    """What is missing, too much or another, at most a few; floats may differ by 1e-9."""
    said = [f"missing: {wanted[key]}" for key in wanted.keys() - found.keys()]
    said += [f"too much: {found[key]}" for key in found.keys() - wanted.keys()]
    said += [f"{found[key]}\nis not {wanted[key]}" for key in wanted.keys() & found.keys() if not _alike(found[key], wanted[key])]
    return sorted(said)[:5]


def _key(rollup: model.Rollup) -> RollupKey:
    return rollup.tenant, rollup.run, rollup.process, rollup.metric, rollup.attributes, rollup.window_ns, rollup.position


def _alike(one: Any, other: Any) -> bool:
    if isinstance(one, msgspec.Struct) and type(one) is type(other):
        return _alike(msgspec.structs.asdict(one), msgspec.structs.asdict(other))
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9) or (math.isnan(one) and math.isnan(other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_alike(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(_alike(a, b) for a, b in zip(one, other, strict=True))
    return bool(one == other)
