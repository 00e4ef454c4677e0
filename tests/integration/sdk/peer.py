"""A small OTLP/HTTP JSON receiver on a real socket: keeps what it is sent and lets tests wait for it."""

import gzip
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class LogRecord:
    """One received log record with plain values."""

    event: str
    severity: int
    body: str
    attributes: dict[str, Any]
    resource: dict[str, Any]
    scope: dict[str, Any]
    received_s: float = field(default_factory=time.monotonic, compare=False)


class Receiver:
    """What arrived so far."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._records: list[LogRecord] = []
        self.answers: list[int] = []
        """Statuses to answer with next, before 200 again."""
        self.headers: list[dict[str, str]] = []
        self.endpoint = ""

    def take(self, body: bytes, headers: dict[str, str]) -> int:
        """Keep one request; the status to answer."""
        with self._changed:
            self.headers.append(headers)
            if self.answers:
                return self.answers.pop(0)
            self._records.extend(_records(json.loads(body)))
            self._changed.notify_all()
        return 200

    def of(self, event: str) -> list[LogRecord]:
        """Records of one event so far."""
        with self._changed:
            return [record for record in self._records if record.event == event]

    def wait(
        self, event: str, count: int = 1, timeout_s: float = 15.0, where: Callable[[LogRecord], bool] = lambda _: True
    ) -> list[LogRecord]:
        """The first `count` records of an event that satisfy `where`; fails the test when they do not come in time."""

        def found() -> list[LogRecord]:
            return [record for record in self._records if record.event == event and where(record)]

        with self._changed:
            self._changed.wait_for(lambda: len(found()) >= count, timeout_s)
            records = found()
            seen = [(record.event, record.body) for record in self._records]
        assert len(records) >= count, f"{count} records {event!r} wanted, {len(records)} came; all: {seen}"
        return records[:count]


def _records(request: dict[str, Any]) -> Iterator[LogRecord]:
    for of_resource in request.get("resourceLogs", []):
        resource = _plain(of_resource["resource"].get("attributes", []))
        for of_scope in of_resource["scopeLogs"]:
            scope = _plain(of_scope["scope"].get("attributes", []))
            for raw in of_scope["logRecords"]:
                yield LogRecord(
                    event=raw.get("eventName", ""),
                    severity=raw.get("severityNumber", 0),
                    body=raw.get("body", {}).get("stringValue", ""),
                    attributes=_plain(raw.get("attributes", [])),
                    resource=resource,
                    scope=scope,
                )


def _plain(attributes: list[dict[str, Any]]) -> dict[str, Any]:
    return {attribute["key"]: _value(attribute["value"]) for attribute in attributes}


def _value(value: dict[str, Any]) -> Any:
    (kind, content), *_ = value.items()
    if kind == "intValue":
        return int(content)
    if kind == "arrayValue":
        return [_value(element) for element in content["values"]]
    return content


@contextmanager
def receiving() -> Iterator[Receiver]:
    """Serve on a free loopback port for the time of the block."""
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", "0")))
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            status = receiver.take(body, {name.lower(): value for name, value in self.headers.items()}) if self.path == "/v1/logs" else 200
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, format: str, *args: object) -> None:
            """Tests read the records instead."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    receiver.endpoint = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
