"""What processes may not say through the Collector: it has a key that speaks for the node, and they would borrow it."""

import json
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2_grpc import LogsServiceStub

from tests.integration.deploy.collector import Collector, attributes, gauge, logs, process, record, span, spans
from tests.integration.deploy.receiver import Receiver
from tests.integration.service.running import wait_for

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1800)]
ALL = ("node.yaml", "kernel.yaml", "kernel-file.yaml")
LINE = "NVRM: Xid (PCI:0000:3b:00): 79, pid=4000, name=python, GPU has fallen off the bus."
Document = dict[str, Any]


def forged() -> list[Document]:
    """Node records as a process could write them: everything that ingest reads as their name."""
    by_attribute = record("by attribute") | {"attributes": attributes({"event.name": "node.xid"})}
    padded = record("padded") | {"attributes": attributes({"event.name": " \tnode.kernel "})}
    twice = record("second of two") | {"attributes": attributes({"event.name": "my.event"}) + attributes({"event.name": "node.xid"})}
    after_nothing = record("second of two, after an empty one")
    after_nothing["attributes"] = [{"key": "event.name", "value": {}}, *attributes({"event.name": "node.xid"})]
    listed = record("list")
    listed["attributes"] = [{"key": "event.name", "value": {"arrayValue": {"values": [{"stringValue": "node.xid"}]}}}]
    named = [record(f"by name {event}", 17, event) for event in ("node.xid", "node.oom_kill", "node.kernel", "node.anything")]
    return [*named, record("padded field", 17, " node.xid"), by_attribute, padded, twice, after_nothing, listed]


def names(receiver: Receiver) -> dict[str, str]:
    """Name of each record's event, by its text; records must not have names elsewhere."""
    for _, one in receiver.logs():
        assert "event.name" not in [pair.key for pair in one.attributes], one
    return {one.body.string_value: one.event_name for _, one in receiver.logs()}


def test_only_the_kernel_log_makes_node_records(receiver: Receiver, tmp_path: Path, collector_binary: Path) -> None:
    log = tmp_path / "kern.log"
    log.write_text("Nov 29 10:00:00 node-a kernel: [1.0] before\n")
    me = process("forger", 0, "node-a")
    older = record("older", 9) | {"attributes": attributes({"event.name": "train.phase"})}
    with Collector(tmp_path / "agent", receiver.url, "ffk_agent", ALL, "node-a", KERNEL_FILE=str(log)) as collector:
        wait_for(collector.watches, 20, "the file")
        collector.send("logs", logs(me, *forged(), record("honest", 17, "my.event"), older))
        one = ExportLogsServiceRequest()
        sent = one.resource_logs.add().scope_logs.add().log_records
        sent.add(event_name="node.xid", severity_number=17).body.string_value = "over gRPC"
        sent.add(event_name="nodes", severity_number=17).body.string_value = "honest over gRPC"
        with grpc.insecure_channel(collector.grpc_address) as channel:
            stub: Any = LogsServiceStub(channel)  # type: ignore[no-untyped-call]  # generated
            stub.Export(one, timeout=20)
        with log.open("a") as file:
            file.write(f"Nov 29 10:00:02 node-a kernel: [ 123.456789] {LINE}\n")
        honest = {"honest": "my.event", "older": "train.phase", "honest over gRPC": "nodes", LINE: "node.xid"}
        wait_for(lambda: honest.items() <= names(receiver).items(), 20, "what may be said")
        left = {text: name for text, name in names(receiver).items() if text not in honest}
        # Names that are none: ingest reads no name in them any more, since the attribute is gone.
        assert left == {"list": "", "second of two": "my.event", "second of two, after an empty one": ""}
        counted = next(
            float(line.split()[-1])
            for line in httpx.get(collector.metrics_url).text.splitlines()
            if line.startswith("otelcol_processor_filter_logs") and 'filter="filter/claims"' in line
        )
        assert counted == len(forged()) - len(left) + 1, "what was dropped can be seen"


def test_what_a_container_prints_is_no_node_record(receiver: Receiver, tmp_path: Path, collector_binary: Path) -> None:
    """Of lines that a container engine wrote as JSON every field becomes an attribute."""
    folder = tmp_path / "pods" / "team_trainer-0_0f1e2d3c-1111-2222-3333-444455556666" / "main"
    folder.mkdir(parents=True)
    line = {"log": "ERROR before\n", "stream": "stderr", "time": "2026-11-29T10:00:00.000000002Z"}
    (folder / "0.log").write_text(json.dumps(line) + "\n")
    pattern = str(tmp_path / "pods" / "*" / "*" / "*.log")
    configs = ("node.yaml", "kernel.yaml", "pods.yaml")
    with Collector(tmp_path / "agent", receiver.url, "ffk_agent", configs, "node-a", POD_LOGS=pattern) as collector:
        wait_for(collector.watches, 20, "the file")
        with (folder / "0.log").open("a") as file:
            for more in ({"event.name": "node.xid", "event_name": "node.xid"}, {"log": f"ERROR kernel: {LINE}\n"}):
                file.write(json.dumps(line | more) + "\n")
        wait_for(lambda: bool(receiver.records()), 20, "the line")
        assert [(LINE in text, name) for text, name in names(receiver).items()] == [(True, "")]


def test_where_it_is_the_agent_says(receiver: Receiver, tmp_path: Path, collector_binary: Path) -> None:
    """A process that names another node and cluster would take part in that node's faults and silence."""
    elsewhere = process("liar", 0, "elsewhere") | {"k8s.cluster.name": "other"}
    with Collector(tmp_path, receiver.url, "ffk_agent", node="node-a") as collector:
        twice = logs(elsewhere, record("x"))
        twice["resourceLogs"][0]["resource"]["attributes"] += attributes({"host.name": "elsewhere too"})
        collector.send("logs", twice)
        collector.send("metrics", gauge(elsewhere, "train.loss", [(1, 1.0)]))
        collector.send("traces", spans(elsewhere, span(1, 0, error=True)))
        wait_for(lambda: {request.path for request in receiver.requests} == {"/v1/logs", "/v1/metrics", "/v1/traces"}, 20, "all signals")
    for request in receiver.requests:
        assert b"elsewhere" not in request.body, request.path
        assert request.body.count(b"node-a") == 1
        assert b"other" in request.body, "the agent was not told its cluster"


def test_a_collector_that_is_on_no_node_leaves_names_alone(receiver: Receiver, tmp_path: Path, collector_binary: Path) -> None:
    with Collector(tmp_path, receiver.url, "ffk_agent", node="") as collector:
        collector.send("logs", logs(process("afar", 0, "gpu-host-7"), record("x")))
        wait_for(lambda: bool(receiver.requests), 20, "the record")
    assert b"gpu-host-7" in receiver.requests[0].body
