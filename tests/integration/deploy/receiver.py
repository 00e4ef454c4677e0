"""A receiver in place of ingest: keeps everything that a Collector sends, also plain spans, and answers what a test wants."""

import gzip
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.resource.v1.resource_pb2 import Resource


class Request(NamedTuple):
    """One request, and what it was answered."""

    path: str
    authorization: str
    body: bytes
    status: int


class Receiver:
    """Listens on a port of its own until it is closed."""

    def __init__(self) -> None:
        self.status = 200
        """What requests are answered; those that are not answered 200 count as refused."""
        self.allowed: str | None = None
        """The one `authorization` that is taken; all others are answered 401. None: any."""
        self.asked: list[Request] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                plain = gzip.decompress(body) if self.headers["content-encoding"] == "gzip" else body
                status = receiver._decide(self.headers["authorization"])
                receiver.asked.append(Request(self.path, self.headers["authorization"], plain, status))
                self.send_response(status)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                """Nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, name="receiver", daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def _decide(self, authorization: str) -> int:
        if self.allowed is not None and authorization != self.allowed:
            return 401
        return self.status

    def close(self) -> None:
        """Stop receiving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def requests(self) -> list[Request]:
        """What was taken."""
        return [request for request in list(self.asked) if request.status == 200]

    @property
    def refused(self) -> list[Request]:
        """What was answered with an error."""
        return [request for request in list(self.asked) if request.status != 200]

    def _bodies(self, path: str) -> list[bytes]:
        return [request.body for request in self.requests if request.path == path]

    def spans(self) -> list[str]:
        """Names of the spans that came, sorted, with the names of attributes the sender did not set."""
        found = []
        for body in self._bodies("/v1/traces"):
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                for scope in resource.scope_spans:
                    found += ["+".join([one.name, *(pair.key for pair in one.attributes)]) for one in scope.spans]
        return sorted(found)

    def logs(self) -> Iterator[tuple[Resource, LogRecord]]:
        """The log records that came."""
        for body in self._bodies("/v1/logs"):
            for resource in ExportLogsServiceRequest.FromString(body).resource_logs:
                for scope in resource.scope_logs:
                    for record in scope.log_records:
                        yield resource.resource, record

    def records(self) -> list[str]:
        """Texts of the log records that came, sorted."""
        return sorted(record.body.string_value for _, record in self.logs())

    def metrics(self) -> Iterator[ExportMetricsServiceRequest]:
        """The requests of metrics that came."""
        for body in self._bodies("/v1/metrics"):
            yield ExportMetricsServiceRequest.FromString(body)

    def points(self) -> list[float]:
        """Values of the points that came, sorted."""
        found = []
        for request in self.metrics():
            for resource in request.resource_metrics:
                for scope in resource.scope_metrics:
                    found += [point.as_double for metric in scope.metrics for point in metric.gauge.data_points]
        return sorted(found)
