"""Turns what the recorder queued into OTLP request bodies, with OpenTelemetry's own data classes and encoders.

The metric instruments of OpenTelemetry lose NaN and keep one value per interval; building `MetricsData` keeps every value.
The exporters are used up to the point where they would open a connection: their transport is replaced by one that keeps the
bytes, since `_http` holds to a deadline, follows no redirect, and the same bytes can be sent again or spooled.

Importing this module loads OpenTelemetry (about 0.1 s): the exporter's thread does it, never the training's.
"""

import gzip
import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.exporter.http.transport._base import BaseHTTPResult, BaseHTTPTransport
from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk.metrics.export import Gauge, Metric, MetricsData, NumberDataPoint, ResourceMetrics, ScopeMetrics
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import TraceFlags

from firstfault import _wire
from firstfault import conventions as c
from firstfault._guard import LOSSES
from firstfault._recorder import Entry, Sample
from firstfault._sidecar_config import AttributeValue
from firstfault._wire import Request, Signal
from firstfault.redact import Redactor

T = TypeVar("T")

POINTS_PER_REQUEST = 500
"""Encoding holds the GIL; so many points take about 3 ms."""
ENTRIES_PER_REQUEST = 50


class _KeepingTransport(BaseHTTPTransport):
    """Takes the place of the network."""

    def __init__(self) -> None:
        self.taken: list[tuple[bytes, str]] = []

    def request(
        self, method: str, url: str, *, headers: dict[str, str] | None = None, timeout: float | None = None, data: bytes | None = None
    ) -> BaseHTTPResult:
        kinds = [value for name, value in (headers or {}).items() if name.lower() == "content-type"]
        self.taken.append((data or b"", kinds[0] if kinds else "application/json"))
        return _Taken(status_code=200, reason="OK")

    def close(self) -> None:
        return None

    def is_connection_error(self, exception: Exception | None) -> bool:
        return False


class _Taken(BaseHTTPResult):
    def content(self) -> bytes:
        return b"{}"

    def headers(self) -> Mapping[str, str]:
        return {}


class _NotFromHere(logging.Filter):
    """Keeps the exporters' own messages about our data out of the user's log: they would change what the job prints."""

    def __init__(self) -> None:
        super().__init__()
        self.encoding: set[int] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        return record.thread not in self.encoding


class Encoder:
    """Encodes for one process; not shared between threads."""

    def __init__(self, resource: Mapping[str, AttributeValue], sender: str, redactor: Redactor, protocol: str = "") -> None:
        """`protocol`: http/protobuf or http/json; empty takes protobuf where the extra `otlp` is installed."""
        self._resource = Resource({name: _wire.plain_value(value, redactor) for name, value in resource.items()})
        self._sender = sender
        self._redactor = redactor
        self._sequence = 0
        self._transport = _KeepingTransport()
        self._quiet = _NotFromHere()
        self._metrics, self._logs = _exporters(protocol, self._transport)
        # A filter does not reach the loggers below; by now all of them exist.
        for name in list(logging.root.manager.loggerDict):
            if name.startswith("opentelemetry."):
                logging.getLogger(name).addFilter(self._quiet)

    def metrics(self, samples: Sequence[Sample]) -> Iterable[Request]:
        """Requests for calls of `log`, at most POINTS_PER_REQUEST points each unless one call alone has more."""
        chunk: list[Sample] = []
        points = 0
        for sample in samples:
            size = len(sample[2]) + 1
            if chunk and points + size > POINTS_PER_REQUEST:
                yield from self._each_if_need_be(chunk, self._encode_metrics)
                chunk, points = [], 0
            chunk.append(sample)
            points += size
        if chunk:
            yield from self._each_if_need_be(chunk, self._encode_metrics)

    def logs(self, entries: Sequence[Entry]) -> Iterable[Request]:
        """Requests for log records; exceptions and exits are marked urgent."""
        for start in range(0, len(entries), ENTRIES_PER_REQUEST):
            chunk = entries[start : start + ENTRIES_PER_REQUEST]
            yield from self._each_if_need_be(chunk, self._encode_logs)

    def _each_if_need_be(self, chunk: Sequence[T], encode: Callable[[Sequence[T]], list[Request]]) -> list[Request]:
        """Encode together, or one by one where that fails, so that a bad one costs only itself."""
        try:
            return encode(chunk)
        except Exception as error:
            if len(chunk) == 1:
                LOSSES.internal_error(error, "encode")
                return []
        return [request for one in chunk for request in self._each_if_need_be([one], encode)]

    def _encode_metrics(self, samples: Sequence[Sample]) -> list[Request]:
        metrics = [
            Metric(name, "", c.METRIC_UNITS.get(name, ""), Gauge([_point(time_ns, value) for time_ns, value in points]))
            for name, points in _wire.series(samples).items()
        ]
        if not metrics:
            return []
        scope = self._scope()
        data = MetricsData([ResourceMetrics(self._resource, [ScopeMetrics(scope, metrics, "")], "")])
        return self._take("metrics", lambda: self._metrics.export(data))

    def _encode_logs(self, entries: Sequence[Entry]) -> list[Request]:
        scope = self._scope()
        records = [ReadableLogRecord(self._record(entry), self._resource, scope) for entry in entries]
        urgent, ends = _wire.is_urgent(entries), _wire.ends_process(entries)
        return [replace(request, urgent=urgent, ends_process=ends) for request in self._take("logs", lambda: self._logs.export(records))]

    def _take(self, signal: Signal, export: Any) -> list[Request]:
        self._quiet.encoding.add(threading.get_ident())
        try:
            export()
        finally:
            self._quiet.encoding.discard(threading.get_ident())
        taken, self._transport.taken = self._transport.taken, []
        if not taken:
            LOSSES.count("not_encodable")
        # Level 1 is as small as level 6 on such data, at a quarter of the time.
        return [Request(signal, self._sequence, gzip.compress(body, 1), kind) for body, kind in taken]

    def _scope(self) -> InstrumentationScope:
        self._sequence += 1
        return InstrumentationScope(_wire.SCOPE_NAME, attributes=_wire.scope_attributes(self._sender, self._sequence))

    def _record(self, entry: Entry) -> LogRecord:
        plain = _wire.plain_record(entry, self._redactor)
        record: LogRecord = LogRecord(
            timestamp=plain.time_ns,
            observed_timestamp=plain.time_ns,
            severity_number=SeverityNumber(plain.severity),
            severity_text=plain.severity_text,
            body=plain.body,
            attributes=plain.attributes,
            event_name=plain.event,
        )
        record.trace_id, record.span_id, record.trace_flags = plain.trace_id, plain.span_id, TraceFlags.get_default()
        return record


def _point(time_ns: int, value: int | float) -> NumberDataPoint:
    return NumberDataPoint(attributes={}, start_time_unix_nano=0, time_unix_nano=time_ns, value=value, exemplars=[])


def _exporters(protocol: str, transport: BaseHTTPTransport) -> tuple[Any, Any]:
    """The metric and the log exporter of OpenTelemetry, protobuf where its extra is installed. Raises ImportError for none."""
    settings: dict[str, Any] = {"endpoint": "http://127.0.0.1/", "timeout": 10.0, "_transport": transport}
    if protocol != "http/json":
        try:
            from opentelemetry.exporter.otlp.proto.http import Compression as ProtobufCompression
            from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter as ProtobufLogs
            from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter as ProtobufMetrics
        except ImportError:
            LOSSES.count("no_protobuf_exporter", 1 if protocol else 0)
        else:
            settings["compression"] = ProtobufCompression.NoCompression
            return ProtobufMetrics(**settings), ProtobufLogs(**settings)
    from opentelemetry.exporter.otlp.common.http import Compression
    from opentelemetry.exporter.otlp.json.http._log_exporter import OTLPLogExporter
    from opentelemetry.exporter.otlp.json.http.metric_exporter import OTLPMetricExporter

    settings["compression"] = Compression.NONE
    return OTLPMetricExporter(**settings), OTLPLogExporter(**settings)
