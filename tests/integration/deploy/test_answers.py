"""What the Collector does with answers of ingest, and with a full queue; ingest is a receiver that answers what a test wants."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2_grpc import LogsServiceStub
from prometheus_client.parser import text_string_to_metric_families

from firstfault_server.core.model import Batch
from firstfault_server.ports import LogEntry
from firstfault_server.wire.otlp import decode, split
from tests.integration.deploy.collector import Collector, attributes, gauge, logs, process, record
from tests.integration.deploy.receiver import Receiver
from tests.integration.service.running import wait_for

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1800)]
ME = process("answered", 0)


def figure(collector: Collector, name: str) -> float:
    """Sum of the samples of one of its own numbers, 0 when there is none."""
    families = text_string_to_metric_families(httpx.get(collector.metrics_url, timeout=10).text)
    return sum(sample.value for family in families for sample in family.samples if sample.name == name)


def offer(collector: Collector, body: str) -> int:
    """Send a record of some size that may be refused; the status of the answer."""
    request = logs(ME, record(body, 17, detail="x" * 30_000))
    return httpx.post(f"{collector.otlp_url}/v1/logs", json=request, timeout=20).status_code


def over_grpc(collector: Collector) -> tuple[grpc.StatusCode, str]:
    """The same over gRPC: code and words of the refusal."""
    request = ExportLogsServiceRequest()
    one = request.resource_logs.add().scope_logs.add().log_records.add(severity_number=17)
    one.body.string_value = "x" * 30_000
    with grpc.insecure_channel(collector.grpc_address) as channel:
        stub: Any = LogsServiceStub(channel)  # type: ignore[no-untyped-call]  # generated
        with pytest.raises(grpc.RpcError) as refused:
            stub.Export(request, timeout=20)
    error: Any = refused.value
    return error.code(), error.details()


def test_a_full_queue_refuses_and_loses_nothing(receiver: Receiver, tmp_path: Path, collector_binary: Path) -> None:
    """Who is refused is told to try again, over HTTP and gRPC; what was taken arrives, over a kill as well; refusals are counted."""
    receiver.status = 503
    # About the least that is possible: what is merged into one request must fit.
    with Collector(tmp_path, receiver.url, "ffk_agent", QUEUE_BYTES="500000") as collector:
        answers = {f"message {number:02}": offer(collector, f"message {number:02}") for number in range(30)}
        assert set(answers.values()) == {200, 503}
        refused = [body for body, status in answers.items() if status == 503]
        assert figure(collector, "otelcol_exporter_enqueue_failed_log_records_total") == len(refused)
        assert over_grpc(collector) == (grpc.StatusCode.UNAVAILABLE, "sending queue is full"), "a code that senders retry on"
        assert receiver.requests == []
        collector.kill()
        collector.start()
        assert offer(collector, refused[0]) == 503, "what it holds, it holds on disk"
        receiver.status = 200
        taken = sorted(set(answers) - set(refused))
        wait_for(lambda: receiver.records() == taken, 40, "what was taken, once")
        assert offer(collector, refused[0]) == 200, "there is room again"
        wait_for(lambda: refused[0] in receiver.records(), 20, "what was refused at first")


@pytest.mark.parametrize("status", [401, 403])
def test_a_refusal_for_good_is_dropped_and_counted(receiver: Receiver, tmp_path: Path, collector_binary: Path, status: int) -> None:
    """Asked once: who has no right today has none in half a second."""
    receiver.status = status
    with Collector(tmp_path, receiver.url, "ffk_agent") as collector:
        collector.send("logs", logs(ME, record("refused"), record("refused too")))
        collector.send("metrics", gauge(ME, "train.loss", [(1, 0.5)]))
        wait_for(lambda: figure(collector, "otelcol_exporter_send_failed_log_records_total") == 2, 20, "the dropped records, counted")
        wait_for(lambda: figure(collector, "otelcol_exporter_send_failed_metric_points_total") == 1, 20, "the dropped point, counted")
        wait_for(lambda: figure(collector, "otelcol_exporter_queue_size") == 0, 20, "an empty queue")
        receiver.status = 200
        collector.send("logs", logs(ME, record("later")))
        wait_for(lambda: receiver.records() == ["later"], 20, "what came afterwards")
    assert sorted(request.path for request in receiver.refused) == ["/v1/logs", "/v1/metrics"]


@pytest.mark.parametrize("status", [429, 503])
def test_a_refusal_for_now_is_tried_again(receiver: Receiver, tmp_path: Path, collector_binary: Path, status: int) -> None:
    receiver.status = status
    with Collector(tmp_path, receiver.url, "ffk_agent") as collector:
        collector.send("logs", logs(ME, record("kept")))
        wait_for(lambda: len(receiver.refused) >= 3, 30, "it tries")
        receiver.status = 200
        wait_for(lambda: receiver.records() == ["kept"], 30, "the record")
        assert figure(collector, "otelcol_exporter_send_failed_log_records_total") == 0


def test_the_key_is_read_again(receiver: Receiver, tmp_path: Path, collector_binary: Path) -> None:
    """When the file is written anew, and when it is replaced as Kubernetes does with the files of a Secret."""
    receiver.allowed = "Bearer ffk_first"
    mounted = tmp_path / "mounted"
    for version, key in (("..v1", "ffk_first"), ("..v2", "ffk_third")):
        (mounted / version).mkdir(parents=True)
        (mounted / version / "key").write_text(key)
    (mounted / "..data").symlink_to("..v1")
    (mounted / "key").symlink_to("..data/key")
    with Collector(tmp_path / "agent", receiver.url, "", API_KEY_FILE=str(mounted / "key")) as collector:
        collector.send("logs", logs(ME, record("first")))
        wait_for(lambda: receiver.records() == ["first"], 20, "with the first key")
        receiver.allowed = "Bearer ffk_second"
        (mounted / "..v1" / "key").write_text("ffk_second")
        arrives(receiver, collector, "second")
        receiver.allowed = "Bearer ffk_third"
        (mounted / "..tmp").symlink_to("..v2")
        (mounted / "..tmp").rename(mounted / "..data")
        (mounted / "..v1" / "key").unlink()
        (mounted / "..v1").rmdir()
        arrives(receiver, collector, "third")


def arrives(receiver: Receiver, collector: Collector, body: str) -> None:
    """Send until it arrives: what comes before the file was read again is refused and dropped."""

    def came() -> bool:
        collector.send("logs", logs(ME, record(body)))
        return body in receiver.records()

    wait_for(came, 20, f"the {body} key")


def test_merged_requests_keep_their_numbers(receiver: Receiver, tmp_path: Path, collector_binary: Path) -> None:
    """Several numbered requests of two processes in one: for ingest they are the batches that were sent."""
    wanted = {(rank, number): [float(rank * 1000 + number * 10 + point) for point in range(3)] for rank in (0, 1) for number in range(20)}

    def send(place: tuple[int, int]) -> None:
        rank, number = place
        request = gauge(process("numbered", rank), "train.loss", [(point + 1, value) for point, value in enumerate(wanted[place])])
        scope = request["resourceMetrics"][0]["scopeMetrics"][0]
        scope["scope"] = {"attributes": attributes({"firstfault.batch.sender": f"sender-{rank}", "firstfault.batch.seq": number})}
        collector.send("metrics", request)

    with Collector(tmp_path, receiver.url, "ffk_agent", FSYNC="false") as collector, ThreadPoolExecutor(4) as senders:
        list(senders.map(send, wanted))
        wait_for(lambda: len(receiver.points()) == 120, 20, "every point, once")
    assert len(receiver.requests) < len(wanted), "nothing was merged"
    found = [batch for request in receiver.requests for batch in batches(request.body)]
    assert len(found) == len(wanted), "each number once"
    assert {(batch.identity.rank, batch.sequence): [value for one in batch.series for value in one.values] for batch in found} == wanted
    assert {(batch.identity.rank, batch.sender) for batch in found} == {(0, "sender-0"), (1, "sender-1")}


def batches(body: bytes) -> list[Batch]:
    """What detection sees of a request of metrics."""
    parts = split("metrics", body).parts
    entries = [LogEntry(tenant="t", process=part.process, signal="metrics", received_ns=10**9, body=part.body) for part in parts]
    return [batch for entry in entries for batch in decode(entry, os.urandom(4).hex())]
