"""Splitting requests by process: whole bytes where possible, refusals counted, neighbours unharmed."""

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue

from firstfault_server.ports import LogEntry
from firstfault_server.wire.otlp import Unreadable, decode, split
from tests.unit.wire.requests import NOW, logs, metrics, resource


def test_a_request_of_one_process_passes_as_it_came() -> None:
    body = metrics({"train.loss": [(NOW, 1.0)]}).SerializeToString()
    found = split("metrics", body)
    assert [(p.process, p.body) for p in found.parts] == [("p0", body)]
    assert not found.rejected


def test_several_processes_are_parted_and_nothing_is_lost() -> None:
    request = metrics({"train.loss": [(NOW, 1.0)]}, resource("a"))
    metrics({"train.loss": [(NOW, 2.0)]}, resource("b"), into=request)
    metrics({"train.grad_norm": [(NOW, 3.0)]}, resource("a"), into=request)
    found = split("metrics", request.SerializeToString())
    assert [p.process for p in found.parts] == ["a", "b"]
    held = ExportMetricsServiceRequest.FromString(found.parts[0].body)
    assert [m.name for r in held.resource_metrics for s in r.scope_metrics for m in s.metrics] == ["train.loss", "train.grad_norm"]


def test_a_process_without_an_id_is_told_apart_by_its_resource_in_any_order() -> None:
    one = split("metrics", metrics({"m": [(NOW, 1.0)]}, {"host.name": "h", "service.name": "s"}).SerializeToString())
    same = split("metrics", metrics({"m": [(NOW, 1.0)]}, {"service.name": "s", "host.name": "h"}).SerializeToString())
    other = split("metrics", metrics({"m": [(NOW, 1.0)]}, {"service.name": "s", "host.name": "g"}).SerializeToString())
    assert one.parts[0].process == same.parts[0].process != other.parts[0].process


def test_reserved_attributes_are_stripped_everywhere_a_client_may_put_them() -> None:
    forged = {"firstfault.tenant": "victim", "firstfault.received_ns": 1}
    request = logs([{"body": "x", "attributes": {**forged, "kept": 1}}], {**resource(), **forged}, {"firstfault.tenant.id": "v"})
    body = split("logs", request.SerializeToString()).parts[0].body
    assert b"firstfault.tenant" not in body
    assert b"firstfault.received" not in body
    assert b"kept" in body


def test_node_records_need_the_scope() -> None:
    request = logs([{"event_name": "node.xid", "body": "Xid 79"}, {"event_name": "train.log", "body": "kept"}])
    request.resource_logs[0].scope_logs[0].log_records.add(time_unix_nano=NOW).attributes.add(
        key="event.name"
    ).value.string_value = "node.oom_kill"
    body = request.SerializeToString()
    refused = split("logs", body)
    assert refused.rejected.total() == 2
    assert "scope node" in refused.reason
    left = ExportLogsServiceRequest.FromString(refused.parts[0].body)
    assert [r.event_name for r in left.resource_logs[0].scope_logs[0].log_records] == ["train.log"]
    assert split("logs", body, node_records=True).parts[0].body == body


@pytest.mark.parametrize("values", [["my.event", "node.xid"], ["", "node.xid"], [" node.xid"], ["\tnode.xid\n"], [["node.xid"]]])
def test_node_records_need_the_scope_however_the_name_is_written(values: list[str | list[str]]) -> None:
    """The attribute may come several times, with blanks, or as a list: what detection would read as a name is refused."""
    request = logs([{"body": "Xid 79"}])
    (record,) = request.resource_logs[0].scope_logs[0].log_records
    for value in values:
        pair = record.attributes.add(key="event.name")
        if isinstance(value, list):
            pair.value.array_value.values.extend(AnyValue(string_value=one) for one in value)
        elif value:
            pair.value.string_value = value
    body = request.SerializeToString()
    assert split("logs", body).rejected.total() == 1
    allowed = split("logs", body, node_records=True).parts[0].body
    (batch,) = decode(LogEntry(tenant="t", process="p", signal="logs", received_ns=NOW, body=allowed), "0")
    assert batch.logs[0].event_name == "node.xid", "or there were nothing to refuse"


def test_text_that_is_not_utf8_is_escaped_and_costs_nothing_else() -> None:
    request = logs([{"body": "MARK", "severity_text": "x"}, {"body": "neighbour"}])
    body = request.SerializeToString().replace(b"MARK", b"\xff\xfeRK")
    found = split("logs", body)
    left = ExportLogsServiceRequest.FromString(found.parts[0].body).resource_logs[0].scope_logs[0].log_records
    assert [r.body.string_value for r in left] == ["\\xff\\xfeRK", "neighbour"]
    assert not found.rejected


def test_a_nested_message_that_is_broken_inside_costs_only_itself() -> None:
    request = metrics({"good": [(NOW, 1.0)], "badX": [(NOW, 2.0)]})
    body = request.SerializeToString()
    at = body.index(b"badX") - 2
    body = body[:at] + b"\x07" + body[at + 1 :]
    found = split("metrics", body)
    assert found.rejected.total() == 1
    assert b"good" in found.parts[0].body


@pytest.mark.parametrize("body", [b"\xff", b"\x0a\x05ab", b"\x00", b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"])
def test_bytes_that_are_no_request_are_refused_with_a_reason(body: bytes) -> None:
    with pytest.raises(Unreadable, match="not an OTLP protobuf request"):
        split("metrics", body)


def test_an_empty_request_is_nothing_to_store() -> None:
    assert split("metrics", b"").parts == []
    assert split("logs", b"{}", json=True).parts == []
