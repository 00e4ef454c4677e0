"""A service tells of itself through the real Collector: what it counts and what it does arrive behind it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.integration.cli.sending import send_crash
from tests.integration.deploy.collector import Collector
from tests.integration.deploy.receiver import Receiver
from tests.integration.distributed.installation import wait_for
from tests.integration.distributed.services import Installation, Service

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]
NAME = "firstfault-ingest"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """Where the operator collects what the services tell."""
    listening = Receiver()
    yield listening
    listening.close()


def requests_counted(receiver: Receiver) -> float:
    """Requests of logs answered by ingest, as the newest metrics say."""
    counted = 0.0
    for request in receiver.metrics():
        for resource in request.resource_metrics:
            if ("service.name", NAME) not in [(each.key, each.value.string_value) for each in resource.resource.attributes]:
                continue
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    if metric.name == "firstfault_ingest_requests":
                        labels = [{each.key: each.value.string_value for each in point.attributes} for point in metric.sum.data_points]
                        assert {"transport": "http", "signal": "logs", "status": "200"} in labels
                        counted = max(counted, *(point.as_double for point in metric.sum.data_points))
    return counted


def served(receiver: Receiver) -> list[tuple[str, int]]:
    """Name and status of each request that ingest has traced."""
    found = []
    for request in receiver.requests:
        if request.path != "/v1/traces":
            continue
        for resource in ExportTraceServiceRequest.FromString(request.body).resource_spans:
            assert ("service.name", NAME) in [(each.key, each.value.string_value) for each in resource.resource.attributes]
            for scope in resource.scope_spans:
                for span in scope.spans:
                    values = {each.key: each.value.int_value for each in span.attributes}
                    found.append((span.name, values["http.response.status_code"]))
    return found


def test_metrics_and_spans_come_through_the_collector(installation: Installation, receiver: Receiver, tmp_path: Path) -> None:
    with Collector(tmp_path / "collector", receiver.url, "ffk_agent", TRACE_WAIT="1s", TRACE_PERCENT="100") as collector:
        environ = installation.environ(
            FIRSTFAULT_TELEMETRY_ENDPOINT=collector.otlp_url, FIRSTFAULT_TELEMETRY_SHARE="1", FIRSTFAULT_TELEMETRY_INTERVAL_S="1"
        )
        with Service("ingest", environ, tmp_path) as ingest:
            ingest.wait_until_ready()
            for number in range(3):
                send_crash(ingest.url("otlp-http"), f"r-{number}")
            sent = ingest.figure("firstfault_ingest_requests_total", transport="http", signal="logs", status="200")
            assert sent >= 3
            wait_for(lambda: requests_counted(receiver) == sent, "the count of its requests")
            wait_for(lambda: len(served(receiver)) >= sent, "a span for each of them")
            assert set(served(receiver)) == {("POST", 200)}
