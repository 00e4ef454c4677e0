"""The Flink host's logic gives what the embedded host gives: on every scripted failure, over restarts, and over holes."""

import zlib
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, TypeVar

import msgspec
import pytest

from firstfault_server.core import model
from firstfault_server.core.stages import build_stages
from firstfault_server.core.stages.protocol import Stage
from firstfault_server.core.stages.worker import Worker
from firstfault_server.core.thresholds import Thresholds
from firstfault_server.detect.flink.keyed_host import StageHost
from firstfault_server.detect.flink.rows import LogRow, write_log_row
from firstfault_server.detect.keyed import KeyedStages
from firstfault_server.ports import LogEntry
from firstfault_server.tables import load_tables
from firstfault_server.wire.identity import Identities
from firstfault_server.wire.log_record import place
from firstfault_server.wire.otlp import decode
from tests.property.cases import CASES, Case
from tests.property.scripts import Script, at, same
from tests.unit.detect.recordings import Record, recording, requests
from tests.unit.detect.simulated_flink import Key, Operator, SimulatedFlink

RecordT = TypeVar("RecordT")
SOME = [case for case in CASES if case.name in {"exception", "hang by text", "nan on one rank", "silent rank", "xid", "same failure again"}]


@cache
def stages() -> dict[str, Stage[Any]]:
    tables = load_tables()
    marks = tables.patterns.advice_marks
    return build_stages(
        Thresholds(), tables.taxonomy, tables.text_reader(), tables.advice, codes=tables.codes, frames=tables.frames, advice_marks=marks
    )


class Outcome(msgspec.Struct):
    """What both hosts must agree on."""

    incidents: list[Any]
    events: list[model.Event]
    rollups: list[Any]
    findings: list[model.Finding]
    runs: dict[Any, model.RunStatus]


def of(kind: type[RecordT], records: Sequence[Any]) -> list[RecordT]:
    return [record for record in records if isinstance(record, kind)]


def outcome(records: Sequence[Any]) -> Outcome:
    assert not of(model.DeadLetter, records)
    last = {one.id: one for one in sorted(of(model.Incident, records), key=lambda one: one.revision)}
    return Outcome(
        incidents=sorted([(*same(one), one.resolved_why, one.page) for one in last.values()], key=repr),
        events=sorted(of(model.Event, records), key=lambda one: one.id),
        rollups=sorted([msgspec.to_builtins(one) for one in of(model.Rollup, records)], key=repr),
        findings=sorted(of(model.Finding, records), key=lambda one: one.id),
        runs={(one.tenant, one.run): one for one in sorted(of(model.RunStatus, records), key=lambda one: one.revision)},
    )


def embedded(records: Sequence[Record]) -> Outcome:
    engine, known = KeyedStages(stages()), Identities()
    for offset, record in enumerate(records):
        received = record.received_ms * 1_000_000
        engine.advance(received)
        if record.signal != "clock":
            tenant, _, process = record.key.partition("/")
            found = LogEntry(tenant=tenant, process=process, signal=record.signal, received_ns=received, body=record.body)
            for batch in decode(found, place(0, offset), known):
                engine.give("worker", batch, received)
    out = engine.output
    return outcome([*out.rollups, *out.events, *out.findings, *out.incidents, *out.runs.values(), *out.dead_letters])


def in_flink(records: Sequence[Record], restarts: Sequence[int] = (), cached: int = 4096) -> Outcome:
    flink = SimulatedFlink(stages(), cached)
    for offset, record in enumerate(records):
        if offset in restarts:
            flink.restart(stages())
        if offset % 40 == 0:
            flink.clocks(record.received_ms)
        tenant = record.key.partition("/")[0].encode()
        flink.put(record.key, LogRow(0, offset, record.received_ms, record.signal.encode(), tenant, record.body))
    return outcome(flink.outputs)


@pytest.mark.parametrize("case", SOME, ids=lambda case: case.name)
def test_both_hosts_say_the_same(case: Case) -> None:
    records = recording(case.build(), case.until)
    assert in_flink(records) == embedded(records)


@pytest.mark.parametrize("case", SOME[:4], ids=lambda case: case.name)
def test_a_restart_anywhere_changes_nothing(case: Case) -> None:
    records = recording(case.build(), case.until)
    restarts = range(7, len(records), 61)
    assert in_flink(records, restarts, cached=2).incidents == embedded(records).incidents


@pytest.mark.parametrize("restart", [False, True], ids=["running", "restarted"])
@pytest.mark.parametrize("start", [20.0, 41.3])
def test_a_time_away_makes_nobody_silent(start: float, restart: bool) -> None:
    script = Script(3, nodes=2)
    script.train(0, 200)
    records = recording(script, 199, outage=(start, 100.0))
    after = next(i for i, record in enumerate(records) if i and record.received_ms - records[i - 1].received_ms > 30_000)
    found = in_flink(records, [after] if restart else [])
    assert found.incidents == []
    assert {rank.state for run in found.runs.values() for rank in run.ranks} == {"running"}


def test_points_that_are_not_stored_are_counted_by_reason() -> None:
    tables = load_tables()
    worker = StageHost("worker", {"worker": Worker(Thresholds(series_per_process=10), tables.text_reader())}, 16)
    times = [at(0), at(0) + 1]
    batch = model.Batch(
        identity=model.Identity(tenant="t", process="p", run="r"),
        received_ns=at(0),
        position="0",
        sender="sdk",
        sequence=1,
        series=[model.Series(metric=f"name_{number}", times_ns=times, values=[1.0, 2.0]) for number in range(12)],
    )
    key = Key(Operator("worker"), "t/p")
    outputs = []
    for signal, body in requests(batch):
        row = LogRow(0, 0, at(0) // 1_000_000, signal.encode(), b"t", body)
        outputs += worker.element("t/p", write_log_row(row), key, at(0)).outputs
    assert len(of(model.Rollup, outputs)) == 10
    assert of(model.DeadLetter, outputs) == []
    assert worker.counts["dropped series_limit"] == 4


def test_a_silence_is_not_taken_for_a_time_away() -> None:
    script = Script(3, nodes=2)
    script.train(0, 30)
    records = recording(script, 140)
    assert in_flink(records).incidents == embedded(records).incidents != []


def in_partitions(records: Sequence[Record], stretch_ms: int) -> Outcome:
    """The records in two partitions, which are read in turns, a stretch of time each."""
    flink = SimulatedFlink(stages())
    parts: list[list[tuple[int, Record]]] = [[], []]
    for offset, record in enumerate(records):
        for number, part in enumerate(parts):
            if not record.key or zlib.crc32(record.key.encode()) % 2 == number:
                part.append((offset, record))
    read, ends = [0, 0], [0, 0]
    while any(read[i] < len(part) for i, part in enumerate(parts)):
        for i, part in enumerate(parts):
            until = min(ends[1 - i], part[-1][1].received_ms) + stretch_ms
            while read[i] < len(part) and (part[read[i]][1].received_ms <= until or not ends[i]):
                offset, record = part[read[i]]
                read[i], ends[i] = read[i] + 1, record.received_ms
                if i == 0 and offset % 40 == 0:
                    flink.clocks(record.received_ms)
                tenant = record.key.partition("/")[0].encode()
                flink.element("worker", record.key, write_log_row(LogRow(0, offset, ends[i], record.signal.encode(), tenant, record.body)))
                flink.advance(min(ends))
    return outcome(flink.outputs)


@pytest.mark.parametrize("case", [case for case in CASES if case.until <= 95], ids=lambda case: case.name)
def test_partitions_may_be_read_far_apart(case: Case) -> None:
    """Found as hangs and deaths in runs whose other ranks' records had not been read yet."""
    records = recording(case.build(), case.until)
    found, wanted = in_partitions(records, 25_000), embedded(records)
    # The words for why one was resolved may tell of what happened to be read first.
    assert [(*one[:-2], one[-1]) for one in found.incidents] == [(*one[:-2], one[-1]) for one in wanted.incidents]
    assert found.events == wanted.events


def broken(body: bytes, key: str = "t1/p", signal: str = "logs", tenant: str = "t1") -> model.DeadLetter:
    flink = SimulatedFlink(stages())
    flink.put(key, LogRow(3, 7, 1_800_000_000_000, signal.encode(), tenant.encode(), body))
    (letter,) = flink.outputs
    assert isinstance(letter, model.DeadLetter)
    return letter


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: broken(b"\xff\xff"), "not an OTLP logs request"),
        (lambda: broken(b"", signal="noise"), "the header `signal` is 'noise'"),
        (lambda: broken(b"", tenant="other"), "its key does not start with its tenant"),
    ],
)
def test_what_cannot_be_read_is_a_dead_letter(make: Callable[[], model.DeadLetter], reason: str) -> None:
    assert reason in make().reason


def test_rows_for_a_stage_that_takes_each_at_once_are_not_gathered() -> None:
    script = Script(2, run="r")
    script.exception(1.0, 1, "ValueError", "a sample has no label")
    flink = SimulatedFlink(stages())
    flink.advance(at(1.0) // 1_000_000)
    for offset, record in enumerate(recording(script, 2.0)):
        if record.signal != "clock":
            tenant = record.key.partition("/")[0].encode()
            row = LogRow(0, offset, record.received_ms, record.signal.encode(), tenant, record.body)
            flink.element("worker", record.key, write_log_row(row))
    # No watermark has come since the exception.
    assert of(model.Incident, flink.outputs)
