"""From queued samples and records to OTLP request bodies, in both protocols."""

import gzip
import logging
import math
from typing import Any

import pytest

from firstfault import _capture
from firstfault._encode import POINTS_PER_REQUEST, Encoder
from firstfault._guard import LOSSES
from firstfault._recorder import Entry, Sample
from firstfault._wire import Request
from firstfault.redact import Redactor
from tests.unit.sdk import receiver

RESOURCE: dict[str, Any] = {"train.run.id": "r", "train.rank": 1, "train.log.paths": ["/a", "/b"]}
PROTOCOLS = ["http/json", "http/protobuf"]


def _documents(requests: list[Request]) -> list[dict[str, Any]]:
    return [receiver._decode(f"/v1/{one.signal}", one.content_type, gzip.decompress(one.body)) for one in requests]


def _points(requests: list[Request], metric: str) -> list[tuple[int, float]]:
    found = [pair for document in _documents(requests) for pair in receiver._points(document)]
    return [(point.time_ns, point.value) for name, point in found if name == metric]


def _records(requests: list[Request]) -> list[receiver.Record]:
    return [record for document in _documents(requests) for record in receiver._records(document)]


@pytest.fixture(params=PROTOCOLS)
def encoder(request: pytest.FixtureRequest) -> Encoder:
    return Encoder(RESOURCE, "sdk", Redactor(["canary-value"]), request.param)


def test_every_value_of_every_step_arrives(encoder: Encoder) -> None:
    values = [1.0, math.nan, math.inf, -math.inf, 1e-320, 0.0]
    samples: list[Sample] = [(1000 + n, n, {"loss": value, "lr": 0.1, "mine/acc": n}) for n, value in enumerate(values)]
    requests = list(encoder.metrics(samples))
    found = _points(requests, "train.loss")
    assert [time_ns for time_ns, _ in found] == [1000 + n for n in range(6)]
    assert math.isnan(found[1][1]) and [value for _, value in found if not math.isnan(value)] == [v for v in values if not math.isnan(v)]
    assert _points(requests, "train.step") == [(1000 + n, n) for n in range(6)]
    assert _points(requests, "train.learning_rate") == [(1000 + n, 0.1) for n in range(6)]
    assert _points(requests, "mine/acc") == [(1000 + n, float(n)) for n in range(6)]


def test_requests_are_small_and_numbered(encoder: Encoder) -> None:
    samples: list[Sample] = [(n + 1, n, {f"m{i}": 1.0 for i in range(9)}) for n in range(120)]
    requests = list(encoder.metrics(samples))
    counts = [sum(1 for _ in receiver._points(document)) for document in _documents(requests)]
    assert sum(counts) == 1200 and max(counts) <= POINTS_PER_REQUEST
    logs = list(encoder.logs([Entry(1, "e", 9)]))
    assert [one.sequence for one in [*requests, *logs]] == list(range(1, len(requests) + 2))
    for number, document in enumerate(_documents([*requests, *logs]), 1):
        assert receiver._sequence(document) == number


def test_one_call_with_many_metrics_stays_whole(encoder: Encoder) -> None:
    requests = list(encoder.metrics([(5, 1, {f"layer.{i}": float(i) for i in range(2000)})]))
    assert len(requests) == 1 and len(_points(requests, "layer.7")) == 1


def test_a_sample_without_step_or_numbers(encoder: Encoder) -> None:
    assert list(encoder.metrics([(5, None, {})])) == []
    requests = list(encoder.metrics([(5, None, {"loss": 1.0})]))
    assert _points(requests, "train.step") == [] and _points(requests, "train.loss") == [(5, 1.0)]


def test_bad_names_and_numbers_cost_only_themselves(encoder: Encoder) -> None:
    sample: Any = (5, 2, {"": 1.0, 3: 1.0, "big": 10**400, "a\ud800": 2.0, "step": 9, "loss": 1.0})
    requests = list(encoder.metrics([sample]))
    assert _points(requests, "train.loss") == [(5, 1.0)]
    assert _points(requests, "train.step") == [(5, 2.0)]
    assert _points(requests, "a\\ud800") == [(5, 2.0)]


def _exception() -> _capture.Captured:
    secret = "canary-value"
    try:
        try:
            raise KeyError(f"token {secret}")
        except KeyError as error:
            raise ValueError(f"password=hunter2hunter2 {secret} \udcff") from error
    except ValueError as error:
        return _capture.capture(error)


def test_an_exception_record(encoder: Encoder) -> None:
    entry = Entry(7, "exception", 21, exception=_exception(), attributes={"train.step": 3, "none": None}, trace_id=0xAB, span_id=0xCD)
    requests = list(encoder.logs([entry]))
    (record,) = _records(requests)
    attributes = record.attributes
    assert (record.event, record.severity, record.time_ns) == ("exception", 21, 7)
    assert (attributes["exception.type"], attributes["train.step"]) == ("ValueError", 3) and "none" not in attributes
    assert len(attributes["firstfault.stack.hash"]) == 64
    assert "direct cause" in attributes["exception.stacktrace"] and '"function": "_exception"' in attributes["firstfault.stack.frames"]
    assert '"relation": "cause"' in attributes["firstfault.exception.chain"]
    assert record.resource["train.log.paths"] == ["/a", "/b"] and record.resource["train.rank"] == 1
    assert requests[0].urgent and not requests[0].ends_process
    assert record.trace_id


def test_no_secret_leaves(encoder: Encoder) -> None:
    entries = [
        Entry(1, "exception", 21, exception=_exception()),
        Entry(2, "note canary-value", 9, body="canary-value", attributes={"a": "canary-value", "b": ["canary-value"]}),
        Entry(3, "train.exit", 21, attributes={"train.exit.reason": "https://u:hunter2hunter2@h/ canary-value"}),
    ]
    for request in encoder.logs(entries):
        body = gzip.decompress(request.body)
        assert b"canary" not in body and b"hunter2" not in body


def test_odd_attributes_are_mended(encoder: Encoder) -> None:
    attributes = {"big": 2**70, "huge": 10**500, "surrogate": "\ud800", "list": ["\udfff"], "long": "x" * 10**6, "flag": True}
    (record,) = _records(
        list(
            encoder.logs(
                [
                    Entry(1, "e\ud800", 9, attributes=attributes),
                ]
            )
        )
    )
    assert record.event == "e\\ud800" and record.attributes["surrogate"] == "\\ud800" and record.attributes["flag"] is True
    assert record.attributes["big"] == float(2**70) and len(record.attributes["long"]) <= 16384


def test_urgent_marks(encoder: Encoder) -> None:
    (plain,) = encoder.logs([Entry(1, "x", 9)])
    (ending,) = encoder.logs([Entry(1, "train.phase", 9), Entry(2, "train.exit", 21)])
    assert (plain.urgent, plain.ends_process, ending.urgent, ending.ends_process) == (False, False, True, True)


def test_an_attribute_of_another_type_tells_its_type(encoder: Encoder) -> None:
    attributes: Any = {"object": object(), "nested": [object()]}
    (record,) = _records(list(encoder.logs([Entry(1, "x", 9, attributes=attributes)])))
    assert record.attributes == {"object": "object", "nested": ["object"]}


def test_the_exporters_say_nothing_about_our_data(encoder: Encoder, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    bad: Any = object()
    before = LOSSES.totals().get("not_encodable", 0)
    assert encoder._take("metrics", lambda: encoder._metrics.export(bad)) == []
    assert caplog.records == []
    assert LOSSES.totals()["not_encodable"] == before + 1
    logging.getLogger(type(encoder._metrics).__module__).warning("from the user's own exporter")
    assert [record.message for record in caplog.records] == ["from the user's own exporter"]


def test_a_record_that_cannot_be_encoded_costs_only_itself(encoder: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    build = encoder._record

    def fussy(entry: Entry) -> Any:
        if entry.event == "bad":
            raise ArithmeticError("by design")
        return build(entry)

    monkeypatch.setattr(encoder, "_record", fussy)
    reason = "internal_error:encode:ArithmeticError"
    before = LOSSES.totals().get(reason, 0)
    requests = list(encoder.logs([Entry(1, "first", 9), Entry(2, "bad", 9), Entry(3, "exception", 21)]))
    assert [record.event for record in _records(requests)] == ["first", "exception"]
    assert [request.urgent for request in requests] == [False, True]
    assert LOSSES.totals()[reason] == before + 1
