"""Turns what the recorder queued into OTLP request bodies, with OpenTelemetry's own data classes and encoders.

The metric instruments of OpenTelemetry lose NaN and keep one value per interval; building `MetricsData` keeps every value.
The exporters are used up to the point where they would open a connection: their transport is replaced by one that keeps the
bytes, since `_http` holds to a deadline, follows no redirect, and the same bytes can be sent again or spooled.

Importing this module loads OpenTelemetry (about 0.1 s): the exporter's thread does it, never the training's.
"""

import gzip
import json
import logging
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.exporter.http.transport._base import BaseHTTPResult, BaseHTTPTransport
from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk.metrics.export import Gauge, Metric, MetricsData, NumberDataPoint, ResourceMetrics, ScopeMetrics
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import TraceFlags

from firstfault import _capture, stack
from firstfault import conventions as c
from firstfault._guard import LOSSES
from firstfault._recorder import Entry, Sample
from firstfault._sidecar_config import AttributeValue
from firstfault.redact import Redactor

POINTS_PER_REQUEST = 500
"""Encoding holds the GIL; so many points take about 3 ms."""
ENTRIES_PER_REQUEST = 50
ATTRIBUTE_LIMIT = 16384
"""Characters of one text attribute that is not a stack."""

Signal = Literal["metrics", "logs"]


@dataclass(frozen=True)
class Request:
    """One request, encoded once; sent again it keeps its number and so counts once."""

    signal: Signal
    sequence: int
    body: bytes
    content_type: str
    urgent: bool = False
    """It holds the end of the process or an exception."""
    ends_process: bool = False
    """It holds the process's exit record."""


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
        self._resource = Resource({name: _attribute(value, redactor) for name, value in resource.items()})
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
                yield from self._encode_metrics(chunk)
                chunk, points = [], 0
            chunk.append(sample)
            points += size
        if chunk:
            yield from self._encode_metrics(chunk)

    def logs(self, entries: Sequence[Entry]) -> Iterable[Request]:
        """Requests for log records; exceptions and exits are marked urgent."""
        for start in range(0, len(entries), ENTRIES_PER_REQUEST):
            chunk = entries[start : start + ENTRIES_PER_REQUEST]
            events = {entry.event for entry in chunk}
            for request in self._encode_logs(chunk):
                yield replace(request, urgent=bool(events & {c.EXCEPTION, c.EXIT}), ends_process=c.EXIT in events)

    def _encode_metrics(self, samples: Sequence[Sample]) -> Iterable[Request]:
        points: dict[str, list[NumberDataPoint]] = {}
        for time_ns, step, numbers in samples:
            if step is not None:
                points.setdefault(c.STEP, []).append(_point(time_ns, step))
            for name, value in numbers.items():
                if type(name) is not str or not name:
                    LOSSES.count("bad_metric_name")
                    continue
                wire_name = c.METRIC_SHORT_NAMES.get(name) or stack.well_formed(name[:200])
                if wire_name == c.STEP:
                    continue
                try:
                    points.setdefault(wire_name, []).append(_point(time_ns, float(value)))
                except OverflowError:
                    LOSSES.count("number_too_large")
        metrics = [Metric(name, "", c.METRIC_UNITS.get(name, ""), Gauge(series)) for name, series in points.items() if series]
        if not metrics:
            return []
        scope = self._scope()
        data = MetricsData([ResourceMetrics(self._resource, [ScopeMetrics(scope, metrics, "")], "")])
        return self._take("metrics", lambda: self._metrics.export(data))

    def _encode_logs(self, entries: Sequence[Entry]) -> Iterable[Request]:
        scope = self._scope()
        records = [ReadableLogRecord(self._record(entry), self._resource, scope) for entry in entries]
        return self._take("logs", lambda: self._logs.export(records))

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
        attributes: dict[str, Any] = {c.BATCH_SENDER: self._sender, c.BATCH_SEQ: self._sequence}
        if lost := LOSSES.totals():
            attributes[c.DROPPED] = json.dumps(lost)
        return InstrumentationScope("firstfault", attributes=attributes)

    def _record(self, entry: Entry) -> LogRecord:
        attributes = {name[:200]: _attribute(value, self._redactor) for name, value in entry.attributes.items() if value is not None}
        body = self._text(entry.body, ATTRIBUTE_LIMIT)
        if entry.exception is not None:
            attributes.update(self._exception(_capture.with_sources(entry.exception)))
            body = body or f"{attributes[c.EXCEPTION_TYPE]}: {attributes[c.EXCEPTION_MESSAGE]}"
        record: LogRecord = LogRecord(
            timestamp=entry.time_ns,
            observed_timestamp=entry.time_ns,
            severity_number=SeverityNumber(entry.severity),
            severity_text=_SEVERITY_TEXT.get(entry.severity, ""),
            body=body,
            attributes=attributes,
            event_name=self._text(entry.event, 200),
        )
        record.trace_id, record.span_id, record.trace_flags = entry.trace_id, entry.span_id, TraceFlags.get_default()
        return record

    def _exception(self, exception: _capture.Captured) -> dict[str, Any]:
        clean = _capture.with_texts(exception, self._redactor.text)
        found = {
            c.EXCEPTION_TYPE: clean.type,
            c.EXCEPTION_MESSAGE: stack.clipped(clean.message, _capture.MESSAGE_LIMIT),
            c.EXCEPTION_STACKTRACE: _capture.stacktrace(clean),
            c.STACK_FRAMES: json.dumps([frame.as_dict() for frame in clean.frames], ensure_ascii=False),
        }
        if clean.hash:
            found[c.STACK_HASH] = clean.hash
        if clean.chain:
            found[c.EXCEPTION_CHAIN] = json.dumps([_capture.link_to_wire(link) for link in clean.chain], ensure_ascii=False)
        return {name: stack.well_formed(value) for name, value in found.items()}

    def _text(self, text: str, limit: int) -> str:
        # Cut first and again: redacting is linear, but a text of 10 MB is still not worth reading whole.
        return stack.well_formed(stack.clipped(self._redactor.text(stack.clipped(text, 4 * limit)), limit))


def _point(time_ns: int, value: int | float) -> NumberDataPoint:
    return NumberDataPoint(attributes={}, start_time_unix_nano=0, time_unix_nano=time_ns, value=value, exemplars=[])


def _attribute(value: Any, redactor: Redactor) -> Any:
    """A value as OTLP takes it: texts redacted, well-formed and bounded."""
    if isinstance(value, str):
        return stack.well_formed(stack.clipped(redactor.text(stack.clipped(value, 4 * ATTRIBUTE_LIMIT)), ATTRIBUTE_LIMIT))
    if isinstance(value, (list, tuple)):
        return tuple(_attribute(item, redactor) for item in value)
    if isinstance(value, int) and not isinstance(value, bool) and not -(2**63) <= value < 2**63:
        return float(value) if abs(value) < 1 << 1000 else "an integer beyond all bounds"
    return value if isinstance(value, (bool, int, float)) else _capture.describe(value)


_SEVERITY_TEXT = {9: "INFO", 13: "WARN", 17: "ERROR", 21: "FATAL"}


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
