"""What the Collector leaves out and what it never does, seen by a receiver in place of ingest (which keeps no plain spans)."""

import gzip
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.integration.deploy.collector import Collector, gauge, logs, process, record, span, spans
from tests.integration.service.running import wait_for

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1800)]
ME = process("sampled", 0)


class Receiver:
    """Stands in for ingest: keeps every request, answers 200."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, bytes]] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                plain = gzip.decompress(body) if self.headers["content-encoding"] == "gzip" else body
                receiver.requests.append((self.path, self.headers["authorization"], plain))
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                """Nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, name="receiver", daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        """Stop receiving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _bodies(self, path: str) -> list[bytes]:
        return [body for asked, _, body in list(self.requests) if asked == path]

    def spans(self) -> list[str]:
        """Names of the spans that came, sorted, with the names of attributes the sender did not set."""
        found = []
        for body in self._bodies("/v1/traces"):
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                for scope in resource.scope_spans:
                    found += ["+".join([one.name, *(pair.key for pair in one.attributes)]) for one in scope.spans]
        return sorted(found)

    def records(self) -> list[str]:
        """Texts of the log records that came, sorted."""
        found = []
        for body in self._bodies("/v1/logs"):
            for resource in ExportLogsServiceRequest.FromString(body).resource_logs:
                found += [one.body.string_value for scope in resource.scope_logs for one in scope.log_records]
        return sorted(found)

    def points(self) -> list[float]:
        """Values of the points that came, sorted."""
        found = []
        for body in self._bodies("/v1/metrics"):
            for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                for scope in resource.scope_metrics:
                    found += [point.as_double for metric in scope.metrics for point in metric.gauge.data_points]
        return sorted(found)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.close()


def test_spans(receiver: Receiver, tmp_path: Path, collector_binary: Path) -> None:
    """Telling spans at once; the rest of their trace once it is decided; of healthy traces the share, here none."""
    with Collector(tmp_path, receiver.url, "ffk_agent", TRACE_WAIT="5s", TRACE_PERCENT="0") as collector:
        start = time.monotonic()
        collector.send("traces", spans(ME, span(1, 0), span(1, 1), span(2, 0), span(3, 0)))
        collector.send("traces", spans(ME, span(1, 2, error=True), span(3, 1, exception="handled"), span(4, 0)))
        wait_for(lambda: receiver.spans() == ["span-1-2", "span-3-1"], 4, "the spans that tell, without waiting for their traces")
        wait_for(lambda: len(receiver.spans()) > 2, 30, "the others of their traces")
        assert time.monotonic() - start >= 5
        wait_for(
            lambda: receiver.spans() == ["span-1-0", "span-1-1", "span-1-2", "span-3-0", "span-3-1"], 10, "whole traces, each span once"
        )
        # A trace that was decided: what comes late to it follows, and an error of one that was left out still goes.
        collector.send("traces", spans(ME, span(1, 3), span(2, 1, error=True), span(4, 1)))
        late = ["span-1-0", "span-1-1", "span-1-2", "span-1-3", "span-2-1", "span-3-0", "span-3-1"]
        wait_for(lambda: receiver.spans() == late, 20, "a late span of a kept trace, and a late error")
    assert {key for _, key, _ in receiver.requests} == {"Bearer ffk_agent"}


def test_share_of_healthy_traces(receiver: Receiver, tmp_path: Path, collector_binary: Path) -> None:
    with Collector(tmp_path, receiver.url, "ffk_agent", TRACE_WAIT="1s", TRACE_PERCENT="50") as collector:
        collector.send("traces", spans(ME, *(span(trace, 0) for trace in range(1, 401)), span(999, 0, error=True)))
        wait_for(lambda: len(receiver.spans()) > 1, 30, "a share")
        threading.Event().wait(2)
        kept = len(receiver.spans()) - 1
        assert 120 < kept < 280, "about half of 400"


def test_records(receiver: Receiver, tmp_path: Path, collector_binary: Path) -> None:
    """Named events of any severity and everything from warning up; plain chatter is left out."""
    with Collector(tmp_path, receiver.url, "ffk_agent") as collector:
        chatter = [record("info", 9), record("nothing said", 0), record("debug", 5)]
        kept = [record("warning", 13), record("error", 17), record("beat", 9, "train.heartbeat"), record("own", 9, "my.event")]
        older = record("older name", 9, **{"event.name": "train.phase"})
        collector.send("logs", logs(ME, *chatter, *kept, older))
        wait_for(lambda: receiver.records() == ["beat", "error", "older name", "own", "warning"], 20, "what must be kept")


def test_points_are_never_sampled(receiver: Receiver, tmp_path: Path, collector_binary: Path) -> None:
    with Collector(tmp_path, receiver.url, "ffk_agent") as collector:
        wanted = [float(number) for number in range(2000)]
        for start in range(0, 2000, 100):
            collector.send(
                "metrics", gauge(ME, "train.loss", [(start + i + 1, value) for i, value in enumerate(wanted[start : start + 100])])
            )
        wait_for(lambda: receiver.points() == wanted, 20, "every point, once")


def test_numbered_batches_stay_whole(receiver: Receiver, tmp_path: Path, collector_binary: Path) -> None:
    """A request is never split: both halves would carry the number of the batch."""
    with Collector(tmp_path, receiver.url, "ffk_agent") as collector:
        large = gauge(ME, "train.loss", [(number + 1, 0.5) for number in range(60_000)])
        collector.send("metrics", large)
        wait_for(lambda: bool(receiver.points()), 20, "the request")
        assert len(receiver.points()) == 60_000
        assert len(receiver.requests) == 1
