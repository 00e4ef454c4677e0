"""OTLP/JSON: the same as protobuf, and what is forgiven."""

import json
import math
from typing import Any

import orjson
import pytest
from google.protobuf import json_format

from firstfault_server.core.model import Batch
from firstfault_server.ports import LogEntry, Signal
from firstfault_server.wire.otlp import Split, Unreadable, decode, split
from tests.unit.wire.requests import NOW, json_logs, json_metrics, logs, metrics, resource

NUMBERED = {"firstfault.batch.sender": "sdk", "firstfault.batch.seq": 7}


def taken(signal: Signal, document: Any) -> tuple[Split, list[Batch]]:
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    found = split(signal, body, json=True)
    batches = []
    for part in found.parts:
        batches += decode(LogEntry(tenant="t", process=part.process, signal=signal, received_ns=NOW, body=part.body), "pos")
    return found, batches


def test_json_and_protobuf_of_the_same_request_decode_alike() -> None:
    request = metrics(
        {"train.loss": [(NOW, 1.5), (NOW + 1, -2.0)], "train.step": [(NOW, 3), (NOW + 1, 4)]}, resource(train__rank=2), NUMBERED
    )
    document = json_format.MessageToDict(request)
    _, from_json = taken("metrics", document)
    plain = split("metrics", request.SerializeToString()).parts[0]
    assert from_json == decode(LogEntry(tenant="t", process="p0", signal="metrics", received_ns=NOW, body=plain.body), "pos")


def test_json_and_protobuf_log_records_decode_alike() -> None:
    attributes = {"exception.type": "E", "n": 1, "x": 0.5, "b": True, "list": ["a"], "raw": b"\x01"}
    request = logs([{"event_name": "exception", "severity_number": 17, "body": "boom", "attributes": attributes}], scope=NUMBERED)
    _, from_json = taken("logs", json_format.MessageToDict(request))
    body = request.SerializeToString()
    assert from_json == decode(LogEntry(tenant="t", process="p0", signal="logs", received_ns=NOW, body=body), "pos")


def test_trace_and_span_ids_are_hexadecimal() -> None:
    _, (batch,) = taken(
        "logs", json_logs([{"timeUnixNano": str(NOW), "traceId": "0af7651916cd43dd8448eb211c80319c", "spanId": "b7ad6b7169203331"}])
    )
    assert (batch.logs[0].trace_id, batch.logs[0].span_id) == ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331")


@pytest.mark.parametrize(
    ("sent", "expected"),
    [("NaN", math.nan), ("Infinity", math.inf), ("-Infinity", -math.inf), ("1.5", 1.5), (2, 2.0), (10**400, math.inf)],
)
def test_numbers_in_any_clothes(sent: Any, expected: float) -> None:
    body = json.dumps(json_metrics({"m": [{"timeUnixNano": str(NOW), "asDouble": sent}]})).encode()
    found, (batch,) = taken("metrics", body)
    (value,) = batch.series[0].values
    assert value == expected or (math.isnan(value) and math.isnan(expected))
    assert not found.rejected


def test_bare_nan_and_infinity_are_values() -> None:
    text = json.dumps(json_metrics({"m": [{"timeUnixNano": NOW, "asDouble": math.nan}, {"timeUnixNano": NOW, "asDouble": -math.inf}]}))
    assert "NaN" in text
    _, (batch,) = taken("metrics", text.encode())
    assert math.isnan(batch.series[0].values[0])
    assert batch.series[0].values[1] == -math.inf


def test_lone_surrogates_are_escaped_and_flagged() -> None:
    text = json.dumps(json_logs([{"timeUnixNano": str(NOW), "body": {"stringValue": "bad MARK"}}, {"body": {"stringValue": "neighbour"}}]))
    found, (batch,) = taken("logs", text.replace("MARK", "\\ud800").encode())
    assert [r.body for r in batch.logs] == ["bad \\ud800", "neighbour"]
    assert [r.attributes.get("firstfault.repaired") for r in batch.logs] == ["text", None]
    assert not found.rejected


def test_bytes_that_are_not_utf8_are_escaped_and_flagged() -> None:
    text = orjson.dumps(json_logs([{"timeUnixNano": str(NOW), "body": {"stringValue": "bad MARK"}}])).replace(b"MARK", b"\xff")
    _, (batch,) = taken("logs", text)
    assert batch.logs[0].body == "bad \\udcff"
    assert batch.logs[0].attributes["firstfault.repaired"] == "text"


@pytest.mark.parametrize(
    "bad",
    [
        {"timeUnixNano": str(NOW)},
        {"timeUnixNano": str(NOW), "asDouble": "many"},
        {"timeUnixNano": str(NOW), "asDouble": None},
        {"timeUnixNano": str(NOW), "asDouble": {}},
        {"timeUnixNano": str(NOW), "asInt": "1.5"},
        {"timeUnixNano": str(NOW), "asInt": 1 << 70},
        {"timeUnixNano": "yesterday", "asDouble": 1.0},
        {"timeUnixNano": [], "asDouble": 1.0},
        "a point",
        7,
        None,
        [],
    ],
)
def test_a_bad_point_is_refused_with_a_reason_and_its_neighbour_stays(bad: Any) -> None:
    found, (batch,) = taken("metrics", json_metrics({"m": [bad, {"timeUnixNano": str(NOW), "asDouble": 4.5}]}))
    assert found.rejected.total() == 1
    assert found.reason
    assert batch.series[0].values == [4.5]


@pytest.mark.parametrize(
    "bad",
    [{"timeUnixNano": "soon"}, {"severityNumber": []}, {"timeUnixNano": {"a": 1}}, "text", 5, None],
)
def test_a_bad_log_record_is_refused_and_its_neighbour_stays(bad: Any) -> None:
    found, (batch,) = taken("logs", json_logs([bad, {"timeUnixNano": str(NOW), "body": {"stringValue": "neighbour"}}]))
    assert found.rejected.total() == 1
    assert [r.body for r in batch.logs] == ["neighbour"]


@pytest.mark.parametrize(
    "odd",
    [
        {"attributes": "none"},
        {"attributes": [1, None, {"key": 5}, {"value": {}}, {"key": "a"}]},
        {"attributes": [{"key": "a", "value": {"intValue": "many"}}]},
        {"attributes": [{"key": "a", "value": {"intValue": 1 << 80}}]},
        {"attributes": [{"key": "a", "value": {"doubleValue": "much"}}]},
        {"attributes": [{"key": "a", "value": {"arrayValue": 3}}, {"key": "b", "value": {"kvlistValue": {"values": 3}}}]},
        {"attributes": [{"key": "a", "value": {"bytesValue": 3}}, {"key": "b", "value": {"laterValue": 3}}]},
        {"attributes": [{"key": "a", "value": "bare"}]},
        {"body": "bare"},
        {"body": {"kvlistValue": {"values": [{"key": "k", "value": {"intValue": "1"}}]}}},
        {"severityNumber": "SEVERITY_NUMBER_ERROR2", "severityText": 5, "eventName": 7},
        {"traceId": "zz", "spanId": 5, "unknownField": {"deep": [1, 2]}},
        {"timeUnixNano": -5},
        {"timeUnixNano": 1 << 70},
    ],
)
def test_odd_log_records_are_taken_as_far_as_they_go(odd: dict[str, Any]) -> None:
    found, (batch,) = taken("logs", json_logs([{"timeUnixNano": str(NOW), **odd}, {"body": {"stringValue": "neighbour"}}]))
    assert not found.rejected
    assert len(batch.logs) == 2


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"5", b'"text"', b"null", b'{"resourceMetrics": 5}', b"[" * 100_000, b"\xff\xfe"])
def test_what_is_no_request_is_refused_with_a_reason(body: bytes) -> None:
    with pytest.raises(Unreadable) as caught:
        split("metrics", body, json=True)
    assert str(caught.value)


@pytest.mark.parametrize(
    "holder",
    [{"resourceMetrics": [5]}, {"resourceMetrics": [{"scopeMetrics": 7}]}, {"resourceMetrics": [{"scopeMetrics": [{"metrics": [{}]}]}]}],
)
def test_odd_holders_are_counted(holder: dict[str, Any]) -> None:
    found, batches = taken("metrics", holder)
    assert found.rejected.total() == 1
    assert batches == []


def test_other_kinds_of_metrics() -> None:
    document = json_metrics({})
    document["resourceMetrics"][0]["scopeMetrics"][0]["metrics"] = [
        {"name": "s", "sum": {"dataPoints": [{"timeUnixNano": str(NOW), "asInt": "12"}]}},
        {"name": "h", "histogram": {"dataPoints": [{"timeUnixNano": str(NOW), "count": "4", "sum": 10}]}},
        {
            "name": "x",
            "gauge": {"dataPoints": [{"timeUnixNano": str(NOW), "asInt": 3, "attributes": [{"key": "g", "value": {"stringValue": "0"}}]}]},
        },
        {"name": "y", "gauge": {"dataPoints": [{"timeUnixNano": str(NOW), "flags": 1}]}},
        {"name": "z", "later": {}},
    ]
    found, (batch,) = taken("metrics", document)
    assert {s.metric: s.values for s in batch.series} == {"s": [12.0], "h": [2.5], "x": [3.0]}
    assert found.rejected.total() == 1
