"""A small OTLP/HTTP receiver for the SDK's tests that can misbehave in every way a network does."""

import contextlib
import gzip
import json
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

STATUS = {"ok": 200, "partial": 200, "500": 500, "503": 503, "429": 429, "redirect": 307, "refuse": 400}


@dataclass
class Request:
    """One request as it came."""

    path: str
    headers: dict[str, str]
    document: dict[str, Any]
    sequence: int


@dataclass
class Record:
    """One log record, flattened."""

    event: str
    severity: int
    body: str
    attributes: dict[str, Any]
    resource: dict[str, Any]
    scope: dict[str, Any]
    trace_id: str
    time_ns: int


@dataclass
class Point:
    """One point of a gauge."""

    time_ns: int
    value: float


@dataclass
class Receiver:
    """Answers in its `mode`; keeps what it read."""

    port: int = 0
    mode: str = "ok"
    retry_after: str = ""
    requests: list[Request] = field(default_factory=list)
    raw: list[bytes] = field(default_factory=list)
    changed: threading.Condition = field(default_factory=threading.Condition)

    @property
    def endpoint(self) -> str:
        """OTLP base URL."""
        return f"http://127.0.0.1:{self.port}"

    def records(self, event: str | None = None, sender: str = "sdk") -> list[Record]:
        """Log records in the order they came."""
        with self.changed:
            found = [record for request in self.requests for record in _records(request.document)]
        return [one for one in found if (event is None or one.event == event) and one.scope.get("firstfault.batch.sender") == sender]

    def points(self, metric: str) -> list[Point]:
        """Points of one metric in the order they came."""
        with self.changed:
            return [point for request in self.requests for name, point in _points(request.document) if name == metric]

    def wait(self, condition: Callable[[], bool], timeout_s: float = 20.0) -> None:
        """Return when the condition holds; AssertionError when it does not in time."""
        with self.changed:
            assert self.changed.wait_for(condition, timeout_s), "the receiver did not get what the test waits for"


@contextlib.contextmanager
def receiver(mode: str = "ok") -> Iterator[Receiver]:
    """A running receiver on a free port of the loopback interface."""
    box = Receiver(mode=mode)
    stop = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            raw = gzip.decompress(body) if self.headers.get("content-encoding") == "gzip" else body
            document = _decode(self.path, self.headers["content-type"], raw)
            with box.changed:
                box.raw.append(raw)
                box.requests.append(Request(self.path, dict(self.headers.items()), document, _sequence(document)))
                box.changed.notify_all()
            self._answer(box.mode)

        def _answer(self, mode: str) -> None:
            if mode == "garbage":
                self.wfile.write(b"\x00\xff not http at all\r\n\r\n" * 3)
                self.close_connection = True
            elif mode == "drip":
                # A header that never ends, a byte at a time: each read succeeds, the answer never does.
                with contextlib.suppress(OSError):
                    self.wfile.write(b"HTTP/1.1 200 OK\r\nx: ")
                    while not stop.wait(0.1):
                        self.wfile.write(b"y")
                        self.wfile.flush()
                self.close_connection = True
            elif mode == "silent":
                stop.wait()
                self.close_connection = True
            else:
                answer = b'{"partialSuccess":{"rejectedDataPoints":"2","errorMessage":"no"}}' if mode == "partial" else b"{}"
                self.send_response(STATUS[mode])
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(answer)))
                if box.retry_after:
                    self.send_header("retry-after", box.retry_after)
                if mode == "redirect":
                    self.send_header("location", "/elsewhere")
                self.end_headers()
                self.wfile.write(answer)

        def log_message(self, format: str, *args: Any) -> None:
            return None

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    box.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield box
    finally:
        stop.set()
        server.shutdown()
        server.server_close()
        thread.join()


@contextlib.contextmanager
def black_hole() -> Iterator[str]:
    """Endpoint whose connections are never accepted: its queue is full, so connecting hangs until a time-out."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(3):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


@contextlib.contextmanager
def nobody() -> Iterator[str]:
    """Endpoint that refuses connections."""
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{reserved.getsockname()[1]}"


def _decode(path: str, content_type: str, raw: bytes) -> dict[str, Any]:
    if content_type == "application/json":
        loaded: dict[str, Any] = json.loads(raw, parse_constant=_no_constant)
        return loaded
    message = (ExportMetricsServiceRequest if path.endswith("metrics") else ExportLogsServiceRequest).FromString(raw)
    return MessageToDict(message)


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def _value(value: dict[str, Any]) -> Any:
    if "arrayValue" in value:
        return [_value(item) for item in value["arrayValue"].get("values", [])]
    if "intValue" in value:
        return int(value["intValue"])
    return next(iter(value.values()), None)


def _attributes(raw: list[dict[str, Any]] | None) -> dict[str, Any]:
    return {pair["key"]: _value(pair["value"]) for pair in raw or []}


def _scopes(document: dict[str, Any], kind: str) -> Iterator[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]]:
    for resource in document.get(f"resource{kind}", []):
        for scope in resource[f"scope{kind}"]:
            yield _attributes(resource["resource"].get("attributes")), _attributes(scope["scope"].get("attributes")), scope


def _sequence(document: dict[str, Any]) -> int:
    for kind in ("Logs", "Metrics"):
        for _, scope, _ in _scopes(document, kind):
            return int(scope["firstfault.batch.seq"])
    return 0


def _records(document: dict[str, Any]) -> Iterator[Record]:
    for resource, scope, raw in _scopes(document, "Logs"):
        for record in raw["logRecords"]:
            yield Record(
                event=record.get("eventName", ""),
                severity=_severity(record.get("severityNumber", 0)),
                body=record.get("body", {}).get("stringValue", ""),
                attributes=_attributes(record.get("attributes")),
                resource=resource,
                scope=scope,
                trace_id=record.get("traceId", ""),
                time_ns=int(record["timeUnixNano"]),
            )


def _severity(raw: Any) -> int:
    return {"SEVERITY_NUMBER_INFO": 9, "SEVERITY_NUMBER_ERROR": 17, "SEVERITY_NUMBER_FATAL": 21}.get(raw) or int(raw)


def _points(document: dict[str, Any]) -> Iterator[tuple[str, Point]]:
    for _, _, raw in _scopes(document, "Metrics"):
        for metric in raw["metrics"]:
            for point in metric["gauge"]["dataPoints"]:
                yield metric["name"], Point(int(point["timeUnixNano"]), float(point.get("asDouble", point.get("asInt", 0))))
