"""The service's own traces and metrics: sent over OTLP as they are, and harmless when nobody takes them."""

import asyncio
import gzip
import threading
import time
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest
import structlog
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from deploy.native.servers.process import free_ports
from firstfault_server.cli.own_telemetry import OwnTelemetry
from firstfault_server.cli.tracing import traced_app, traced_handler

LOG = structlog.wrap_logger(structlog.PrintLogger(), wrapper_class=structlog.make_filtering_bound_logger(50))


class Collector:
    """Takes what is sent and keeps it."""

    def __init__(self) -> None:
        self.metrics: list[ExportMetricsServiceRequest] = []
        self.traces: list[ExportTraceServiceRequest] = []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:

                body = self.rfile.read(int(self.headers["content-length"]))
                plain = gzip.decompress(body) if self.headers.get("content-encoding") == "gzip" else body
                if self.path == "/v1/metrics":
                    collector.metrics.append(ExportMetricsServiceRequest.FromString(plain))
                else:
                    collector.traces.append(ExportTraceServiceRequest.FromString(plain))
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                """Quiet."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def spans(self) -> dict[str, Any]:
        """By name."""
        return {
            span.name: span for request in self.traces for resource in request.resource_spans for scope in resource.scope_spans
            for span in scope.spans
        }  # fmt: skip


@pytest.fixture
def collector() -> Iterator[Collector]:
    """On a port of its own."""
    made = Collector()
    yield made
    made.server.shutdown()
    made.server.server_close()


def own(endpoint: str, registry: CollectorRegistry) -> OwnTelemetry:
    return OwnTelemetry("firstfault-test", "i-1", "1.2.3", endpoint, 3600, 1.0, registry, LOG)


def test_metrics_arrive_as_they_are(collector: Collector) -> None:
    registry = CollectorRegistry()
    Counter("taken", "Things taken", ["kind"], registry=registry).labels("a").inc(3)
    Gauge("depth", "How deep", registry=registry).set(2.5)
    histogram = Histogram("lasted_seconds", "How long", buckets=(1, 2), registry=registry)
    for value in (0.5, 1.5, 1.5, 9.0):
        histogram.observe(value)
    own(collector.url, registry).stop()
    (request,) = collector.metrics
    (resource,) = request.resource_metrics
    assert {each.key: each.value.string_value for each in resource.resource.attributes}["service.name"] == "firstfault-test"
    found = {metric.name: metric for metric in resource.scope_metrics[0].metrics}
    (taken,) = found["taken"].sum.data_points
    assert (taken.as_double, taken.attributes[0].value.string_value, found["taken"].sum.is_monotonic) == (3, "a", True)
    assert found["depth"].gauge.data_points[0].as_double == 2.5
    (lasted,) = found["lasted_seconds"].histogram.data_points
    assert (list(lasted.bucket_counts), list(lasted.explicit_bounds), lasted.count, lasted.sum) == ([1, 2, 1], [1, 2], 4, 12.5)


def test_requests_and_batches_leave_spans(collector: Collector) -> None:
    telemetry = own(collector.url, CollectorRegistry())

    async def show(_request: object) -> PlainTextResponse:
        return PlainTextResponse("", 503)

    app = traced_app(Starlette(routes=[Route("/things/{name}", show)]), telemetry.tracer)

    async def ask() -> int:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client:
            return (await client.get("/things/one")).status_code

    assert asyncio.run(ask()) == 503

    def handle(records: Sequence[int]) -> None:
        assert records == [1, 2]

    traced_handler(handle, telemetry.tracer, "context")([1, 2])
    telemetry.stop()
    spans = collector.spans()
    assert "process context" in spans
    served = next(span for name, span in spans.items() if name.startswith("GET"))
    assert {each.key: each.value.int_value for each in served.attributes}["http.response.status_code"] == 503
    assert served.status.code == 2


def test_a_collector_that_is_away_holds_up_nothing() -> None:
    (port,) = free_ports(1)
    registry = CollectorRegistry()
    telemetry = own(f"http://127.0.0.1:{port}", registry)
    with telemetry.tracer.start_as_current_span("work"):
        pass
    asked = time.monotonic()
    telemetry.stop()
    assert time.monotonic() - asked < 6


def test_switched_off_it_sends_nothing() -> None:
    telemetry = own("", CollectorRegistry())
    app = Starlette()
    assert traced_app(app, telemetry.tracer) is app
    telemetry.stop()
