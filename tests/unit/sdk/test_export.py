"""The exporter's thread against a service that behaves and misbehaves."""

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsPartialSuccess, ExportLogsServiceResponse

from firstfault import _export
from firstfault._capture import capture
from firstfault._export import Exporter, ExportSettings, rejected
from firstfault._guard import LOSSES
from firstfault._recorder import Entry, Recorder
from firstfault._spool import Spool
from tests.unit.sdk.receiver import nobody, receiver


@contextmanager
def exporting(endpoint: str, spool: Spool | None = None, exit_wait_s: float = 1.5) -> Iterator[tuple[Recorder, Exporter]]:
    recorder = Recorder(None)
    settings = ExportSettings(endpoint=endpoint, resource={"a": "b"}, protocol="http/json", interval_s=0.02, exit_wait_s=exit_wait_s)
    exporter = Exporter(recorder, settings, spool)
    exporter.start()
    try:
        yield recorder, exporter
    finally:
        exporter.stop()
        thread = exporter._thread
        assert thread is not None
        thread.join(15)
        assert not thread.is_alive()


def _eventually(condition: Callable[[], bool], timeout_s: float = 20.0) -> None:
    deadline = time.monotonic() + timeout_s
    pause = threading.Event()
    while not condition():
        assert time.monotonic() < deadline, "did not happen in time"
        pause.wait(0.01)


def _lost(reason: str) -> int:
    return LOSSES.totals().get(reason, 0)


def test_numbers_and_records_arrive_without_a_flush() -> None:
    with receiver() as box, exporting(box.endpoint) as (recorder, _):
        recorder.log({"loss": 1.0}, 1)
        recorder.add(Entry(1, "hello", 9))
        box.wait(lambda: bool(box.points("train.loss")) and bool(box.records("hello")))


def test_flush_says_whether_it_was_delivered() -> None:
    with receiver() as box, exporting(box.endpoint) as (recorder, exporter):
        recorder.log({"loss": 1.0}, 1)
        assert exporter.flush(20)
        assert len(box.points("train.loss")) == 1
        box.mode = "503"
        recorder.log({"loss": 2.0}, 2)
        assert not exporter.flush(20)
        assert exporter.failing
        box.mode = "ok"
        assert exporter.flush(20)
        assert not exporter.failing


def test_a_request_tried_again_keeps_its_number_and_its_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_export, "_PAUSE_S", 0.02)
    with receiver("503") as box, exporting(box.endpoint) as (recorder, _):
        recorder.log({"loss": 1.0}, 1)
        box.wait(lambda: len(box.requests) >= 3)
        box.mode = "ok"
        count = len(box.requests)
        box.wait(lambda: len(box.requests) > count)
    assert {request.sequence for request in box.requests} == {1}
    assert len(set(box.raw)) == 1


@pytest.mark.parametrize(("mode", "reason", "count"), [("partial", "rejected_by_service", 2), ("500", "refused:http_500", 1)])
def test_what_the_service_rejects_is_counted_and_never_sent_again(mode: str, reason: str, count: int) -> None:
    before = _lost(reason)
    with receiver(mode) as box, exporting(box.endpoint) as (recorder, exporter):
        recorder.log({"loss": 1.0}, 1)
        assert exporter.flush(20)
        assert exporter.flush(20)
        assert len(box.requests) == 1
    assert _lost(reason) == before + count


def test_losses_travel_with_the_next_batch() -> None:
    with receiver() as box, exporting(box.endpoint) as (recorder, exporter):
        LOSSES.count("test_reason", 3)
        recorder.add(Entry(1, "hello", 9))
        assert exporter.flush(20)
    assert '"test_reason": ' in box.records("hello")[0].scope["firstfault.dropped"]


def test_memory_is_bounded_and_numbers_go_before_exceptions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_export, "QUEUE_BYTES", 3000)
    before = _lost("unsent_full")
    with receiver("503") as box, exporting(box.endpoint) as (recorder, exporter):
        recorder.add(Entry(1, "exception", 21))
        exporter.flush(20)
        for number in range(30):
            recorder.log({f"m{i}": float(i * number) for i in range(40)}, number)
            exporter.flush(20)
        assert exporter._queued_bytes <= 3000
        assert _lost("unsent_full") > before
        box.mode = "ok"
        assert exporter.flush(20)
    accepted = [record.event for record in box.records()]
    assert "exception" in accepted


def test_of_a_long_queue_the_exception_is_sent_first() -> None:
    with receiver("503") as box, exporting(box.endpoint) as (recorder, exporter):
        for number in range(8):
            recorder.log({"loss": 1.0}, number)
            exporter.flush(20)
        recorder.add(Entry(1, "exception", 21))
        exporter.flush(20)
        with box.changed:
            box.requests.clear()
            box.mode = "ok"
        assert exporter.flush(20)
        assert box.requests[0].path == "/v1/logs"
        assert [request.sequence for request in box.requests[1:]] == list(range(1, 9))


def test_an_acknowledged_exit_is_known() -> None:
    with receiver("503") as box, exporting(box.endpoint) as (recorder, exporter):
        recorder.add(Entry(1, "train.exit", 21))
        exporter.flush(20)
        assert not exporter.exit_delivered
        box.mode = "ok"
        assert exporter.flush(20)
        assert exporter.exit_delivered


def test_what_cannot_be_sent_at_the_end_is_delivered_once_by_the_next(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "root" / "0123456789abcdef")
    with nobody() as endpoint, exporting(endpoint, spool) as (recorder, exporter):
        recorder.log({"loss": 1.5}, 4)
        recorder.add(Entry(1, "exception", 21))
        assert not exporter.stop()
    assert len(spool) == 2
    with receiver() as box:
        with exporting(box.endpoint, spool) as (recorder, _):
            recorder.log({"loss": 2.5}, 5)
            box.wait(lambda: len(box.points("train.loss")) == 2 and bool(box.records("exception")))
            _eventually(lambda: len(spool) == 0)
        assert sorted(point.value for point in box.points("train.loss")) == [1.5, 2.5]
        assert len(box.records("exception")) == 1


@pytest.mark.parametrize("mode", ["500", "503", "429", "garbage", "silent", "drip"])
def test_a_crash_record_is_never_lost_to_a_service_in_trouble(mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("firstfault._spool._LATER_S", 0.05)
    monkeypatch.setattr(_export, "_SPOOL_PAUSE_S", 0.05)
    monkeypatch.setattr(_export, "_REQUEST_TIMEOUT_S", 3.0)
    spool = Spool(tmp_path / "root" / "0123456789abcdef")
    with receiver(mode) as box, exporting(box.endpoint, spool, exit_wait_s=0.5) as (recorder, exporter):
        recorder.add(Entry(1, "exception", 21))
        recorder.add(Entry(2, "train.exit", 21))
        began = time.monotonic()
        assert not exporter.stop()
        assert time.monotonic() - began < 2.0
        assert not exporter.exit_delivered
        assert len(spool) == 1
    with receiver() as box, exporting(box.endpoint, spool) as (recorder, exporter):
        box.wait(lambda: bool(box.records("train.exit")))
        _eventually(lambda: len(spool) == 0)
        assert len(box.records("exception")) == 1


def test_an_exception_that_breaks_the_service_holds_up_nobody_and_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_export, "_SPOOL_PAUSE_S", 0.05)
    spool = Spool(tmp_path / "root" / "0123456789abcdef")
    with receiver("500") as box, exporting(box.endpoint, spool) as (recorder, exporter):
        recorder.add(Entry(1, "exception", 21))
        assert not exporter.flush(20)
        assert len(spool) == 1
        box.mode = "ok"
        recorder.log({"loss": 1.0}, 1)
        assert exporter.flush(20)
        assert len(box.points("train.loss")) == 1
        assert len(box.records("exception")) == 1, "not sent again at once"
        monkeypatch.setattr("firstfault._spool._LATER_S", 0.0)
        box.wait(lambda: len(box.records("exception")) == 2)
        _eventually(lambda: len(spool) == 0)
    assert len({request.sequence for request in box.requests if b"exception" in box.raw[box.requests.index(request)]}) == 1


def test_a_hanging_request_does_not_keep_the_rest_from_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_export, "_REQUEST_TIMEOUT_S", 3.0)
    spool = Spool(tmp_path / "root" / "0123456789abcdef")
    with receiver("silent") as box, exporting(box.endpoint, spool, exit_wait_s=0.2) as (recorder, exporter):
        recorder.log({"loss": 1.5}, 4)
        box.wait(lambda: bool(box.requests))
        recorder.add(Entry(1, "exception", 21))
        began = time.monotonic()
        assert not exporter.stop()
        assert time.monotonic() - began < 1.5
        assert len(spool) == 2


def test_a_process_that_ends_before_opentelemetry_is_there_keeps_its_report(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "root" / "0123456789abcdef")
    recorder = Recorder(None)
    recorder.log({"loss": math.nan, "lr": 0.1}, 4)
    recorder.add(Entry(1, "exception", 21, exception=capture(ValueError("x \ud800")), trace_id=5, span_id=6))
    recorder.add(Entry(2, "train.exit", 21, attributes={"train.exit.code": 1, "flag": True, "list": ["a", 1.5, math.inf]}))
    with receiver() as box:
        # Never started: the state in which a slow import leaves it.
        settings = ExportSettings(endpoint=box.endpoint, resource={"train.run.id": "r", "train.rank": 3})
        assert not Exporter(recorder, settings, spool).stop()
        assert len(spool) == 2
        with exporting(box.endpoint, spool) as (other, _):
            other.add(Entry(9, "hello", 9))
            box.wait(lambda: bool(box.records("train.exit")) and bool(box.points("train.step")))
    exception, end = box.records("exception")[0], box.records("train.exit")[0]
    assert exception.attributes["exception.message"] == "x \\ud800" and exception.trace_id.endswith("05")
    assert exception.resource == {"train.run.id": "r", "train.rank": 3}
    assert end.attributes == {"train.exit.code": 1, "flag": True, "list": ["a", 1.5, "Infinity"]}
    assert math.isnan(box.points("train.loss")[0].value) and box.points("train.step")[0].value == 4
    assert sorted(one.sequence for one in box.requests if b"train.run.id" in box.raw[box.requests.index(one)]) == [1, 2]


def test_an_exporter_that_never_started_delivers_nothing_and_does_not_wait() -> None:
    with nobody() as endpoint:
        exporter = Exporter(Recorder(None), ExportSettings(endpoint=endpoint))
        began = time.monotonic()
        assert not exporter.flush(5)
        assert not exporter.stop()
        assert time.monotonic() - began < 1.0


@pytest.mark.parametrize(
    ("answer", "count"),
    [
        (b"{}", 0),
        (b"", 0),
        (b"\x00\x01", 0),
        (b"[]", 0),
        (b'{"partialSuccess": null}', 0),
        (b'{"partialSuccess": {"rejectedLogRecords": 3}}', 3),
        (b'{"partialSuccess": {"rejectedDataPoints": "4"}}', 4),
        (b'{"partialSuccess": {"rejectedDataPoints": [1]}}', 0),
    ],
)
def test_reading_a_partial_success(answer: bytes, count: int) -> None:
    assert rejected(answer) == count


@pytest.mark.parametrize("message", ["", "why " * 100])
@pytest.mark.parametrize("count", [1, 300, 2**40])
def test_reading_a_partial_success_in_protobuf(count: int, message: str) -> None:
    partial = ExportLogsPartialSuccess(rejected_log_records=count, error_message=message)
    assert rejected(ExportLogsServiceResponse(partial_success=partial).SerializeToString()) == count
    without = ExportLogsServiceResponse(partial_success=ExportLogsPartialSuccess(error_message="only words"))
    assert rejected(without.SerializeToString()) == 0


@given(st.binary(max_size=40))
def test_any_answer_can_be_read(answer: bytes) -> None:
    assert rejected(answer) >= 0 and rejected(b"\x0a" + answer) >= 0


def test_an_exception_does_not_break_the_wait_that_the_service_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    with receiver("503") as box, exporting(box.endpoint) as (recorder, exporter):
        box.retry_after = "60"
        recorder.add(Entry(1, "exception", 21))
        box.wait(lambda: len(box.requests) == 1)
        rounds: list[float] = []
        encode = exporter._encode

        def counted(encoder: Any) -> None:
            rounds.append(time.monotonic())
            encode(encoder)

        monkeypatch.setattr(exporter, "_encode", counted)
        _eventually(lambda: len(rounds) >= 4)
        assert len(box.requests) == 1


def test_many_calls_at_once_are_all_delivered() -> None:
    with receiver() as box, exporting(box.endpoint) as (recorder, exporter):
        before = _lost("queue_full")
        for number in range(20_000):
            recorder.log({"loss": 1.0}, number)
            if number % 4000 == 3999:
                assert exporter.flush(30)
        assert len(box.points("train.loss")) == 20_000 and _lost("queue_full") == before
