"""The emergency encoder: OTLP/JSON with the standard library alone, for a process that ends before OpenTelemetry was imported.

A job that fails in its first second, on a node that reads Python files over a slow network, must not lose its only report.
"""

import gzip
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from firstfault import _wire
from firstfault import conventions as c
from firstfault._recorder import Entry, Sample
from firstfault._sidecar_config import AttributeValue
from firstfault.redact import Redactor

CONTENT_TYPE = "application/json"


class EmergencyEncoder:
    """Encodes all that a sender ever sends: its requests are numbered from 1. Not shared between threads."""

    def __init__(self, resource: Mapping[str, AttributeValue], sender: str, redactor: Redactor) -> None:
        self._described = {"attributes": _attributes({name: _wire.plain_value(value, redactor) for name, value in resource.items()})}
        self._sender = sender
        self._redactor = redactor
        self._sequence = 0

    def metrics(self, samples: Sequence[Sample]) -> list[_wire.Request]:
        """Calls of `log` as one request; none without any."""
        series = _wire.series(samples)
        if not series:
            return []
        self._sequence += 1
        metrics = [
            {"name": name, "unit": c.METRIC_UNITS.get(name, ""), "gauge": {"dataPoints": [_point(*point) for point in points]}}
            for name, points in series.items()
        ]
        scoped = {"scope": _scope(self._sender, self._sequence), "metrics": metrics}
        body = {"resourceMetrics": [{"resource": self._described, "scopeMetrics": [scoped]}]}
        return [_wire.Request("metrics", self._sequence, _compressed(body), CONTENT_TYPE)]

    def logs(self, entries: Sequence[Entry]) -> list[_wire.Request]:
        """Log records as one request; none without any."""
        if not entries:
            return []
        self._sequence += 1
        records = [_record(_wire.plain_record(entry, self._redactor)) for entry in entries]
        scoped = {"scope": _scope(self._sender, self._sequence), "logRecords": records}
        body = {"resourceLogs": [{"resource": self._described, "scopeLogs": [scoped]}]}
        urgent, ends = _wire.is_urgent(entries), _wire.ends_process(entries)
        return [_wire.Request("logs", self._sequence, _compressed(body), CONTENT_TYPE, urgent, ends)]


def _scope(sender: str, sequence: int) -> dict[str, Any]:
    return {"name": _wire.SCOPE_NAME, "attributes": _attributes(_wire.scope_attributes(sender, sequence))}


def _record(record: _wire.PlainRecord) -> dict[str, Any]:
    built: dict[str, Any] = {
        "timeUnixNano": str(record.time_ns),
        "observedTimeUnixNano": str(record.time_ns),
        "severityNumber": record.severity,
        "severityText": record.severity_text,
        "eventName": record.event,
        "body": {"stringValue": record.body},
        "attributes": _attributes(record.attributes),
    }
    if record.trace_id and record.span_id:
        built["traceId"], built["spanId"] = format(record.trace_id, "032x"), format(record.span_id, "016x")
    return built


def _point(time_ns: int, value: int | float) -> dict[str, Any]:
    return {"timeUnixNano": str(time_ns), **({"asInt": str(value)} if isinstance(value, int) else {"asDouble": _double(value)})}


def _attributes(attributes: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in attributes.items()]


def _value(value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": _double(value)}
    if isinstance(value, str):
        return {"stringValue": value}
    return {"arrayValue": {"values": [_value(item) for item in value]}}


def _double(value: float) -> float | str:
    """JSON has no number for these; OTLP/JSON writes them as text."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _compressed(body: Mapping[str, Any]) -> bytes:
    return gzip.compress(json.dumps(body, allow_nan=False, separators=(",", ":")).encode(), 1)
