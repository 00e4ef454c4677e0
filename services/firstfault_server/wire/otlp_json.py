"""OTLP/JSON to protobuf messages, by an own walk that forgives what can be forgiven and refuses single records, not requests.

Forgiven: numbers as strings and strings as numbers, NaN and infinities as strings or bare words, lone surrogates and bytes that are
not UTF-8 (kept as escapes, flagged on log records), unknown members, enum names. `google.protobuf.json_format` would do none of it.
"""

import json
import struct
from collections import Counter
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import orjson
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from firstfault import conventions as names
from firstfault_server.wire.json_values import Misfit, Reader, flag, identifier, nanoseconds, real, whole
from firstfault_server.wire.unreadable import Unreadable

# A point of 18 bytes behind its head: time (field 3, fixed64) and value (field 4, double, or field 6, sfixed64).
_DOUBLE: Final = struct.Struct("<HBQBd")
_INTEGER: Final = struct.Struct("<HBQBq")
_KINDS: Final = ("gauge", "sum", "histogram", "exponentialHistogram", "summary")
_SEVERITY_PREFIX: Final = "SEVERITY_NUMBER_"
_SEVERITIES: Final = {"TRACE": 1, "DEBUG": 5, "INFO": 9, "WARN": 13, "ERROR": 17, "FATAL": 21}


def request(signal: str, body: bytes, rejected: Counter[str]) -> Any:
    """The request as a protobuf message; refused records are counted by reason. Raises Unreadable when it is no OTLP/JSON at all."""
    document = _load(body)
    if not isinstance(document, dict):
        raise Unreadable("the body is not a JSON object")
    if signal == "metrics":
        return _walk(document, ExportMetricsServiceRequest(), ("Metrics", "metrics"), _metric, rejected)
    if signal == "logs":
        return _walk(document, ExportLogsServiceRequest(), ("Logs", "log_records"), _log, rejected)
    return _walk(document, ExportTraceServiceRequest(), ("Spans", "spans"), _span, rejected)


def _load(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        # Slower, but takes bare NaN, lone surrogates and (as surrogates) bytes that are not UTF-8.
        try:
            return json.loads(body.decode("utf-8", "surrogateescape"))
        except (ValueError, RecursionError) as error:
            raise Unreadable(f"the body is not JSON: {str(error) or 'nested too deeply'}"[:300]) from error


_Fill: TypeAlias = Callable[[dict[str, Any], Any, Reader, Counter[str]], None]


def _walk(document: dict[str, Any], out: Any, words: tuple[str, str], record: _Fill, rejected: Counter[str]) -> Any:
    group, field = words
    name = field if field != "log_records" else "logRecords"
    resources = document.get(f"resource{group}")
    if resources is not None and not isinstance(resources, list):
        raise Unreadable(f"resource{group} is not a list")
    for resource in _objects(resources, f"resource{group}", rejected):
        target = getattr(out, f"resource_{group.lower()}").add()
        reader = Reader()
        described = resource.get("resource")
        if isinstance(described, dict):
            reader.attributes(described.get("attributes"), target.resource.attributes)
        for scope in _objects(resource.get(f"scope{group}"), f"scope{group}", rejected):
            into = getattr(target, f"scope_{group.lower()}").add()
            about = scope.get("scope")
            if isinstance(about, dict):
                into.scope.name = reader.text(about.get("name"))
                reader.attributes(about.get("attributes"), into.scope.attributes)
            records = getattr(into, field)
            for item in _objects(scope.get(name), name, rejected):
                reader = Reader()
                made = records.add()
                try:
                    record(item, made, reader, rejected)
                except Misfit as error:
                    del records[-1]
                    rejected[str(error)] += 1
    return out


def _objects(value: Any, name: str, rejected: Counter[str]) -> list[dict[str, Any]]:
    if value is None:
        return []
    if not isinstance(value, list):
        rejected[f"{name} is not a list"] += 1
        return []
    found = [v for v in value if isinstance(v, dict)]
    if len(found) < len(value):
        rejected[f"an item of {name} is not an object"] += len(value) - len(found)
    return found


def _metric(item: dict[str, Any], out: Any, reader: Reader, rejected: Counter[str]) -> None:
    out.name = reader.text(item.get("name"))
    if not out.name:
        raise Misfit("a metric has no name")
    out.unit = reader.text(item.get("unit"))
    kind = next((k for k in _KINDS if isinstance(item.get(k), dict)), None)
    if kind is None:
        raise Misfit("a metric has no data of a known kind")
    points = _objects(item[kind].get("dataPoints"), "dataPoints", rejected)
    if kind in ("gauge", "sum"):
        holder = out.gauge if kind == "gauge" else out.sum
        holder.SetInParent()
        packed = _packed(points) if kind == "gauge" else None
        if packed is not None:
            holder.MergeFromString(packed)
            return
        for point in points:
            try:
                _number_point(point, holder.data_points, reader)
            except Misfit as error:
                rejected[str(error)] += 1
        return
    holder = getattr(out, "exponential_histogram" if kind == "exponentialHistogram" else kind)
    holder.SetInParent()
    for point in points:
        try:
            _distribution(point, holder.data_points, reader)
        except Misfit as error:
            rejected[str(error)] += 1


def _packed(points: list[dict[str, Any]]) -> bytes | None:
    """Points of a time and a number, nothing else, as the bytes of a gauge; None when one of them needs a closer look.

    Most points are of this shape, and this is several times cheaper than filling a message object for each.
    """
    if not points or not all(len(point) == 2 for point in points):
        return None
    try:
        if "asDouble" in points[0]:
            pack = _DOUBLE.pack
            return b"".join([pack(0x120A, 0x19, int(p["timeUnixNano"]), 0x21, p["asDouble"]) for p in points])
        pack = _INTEGER.pack
        return b"".join([pack(0x120A, 0x19, int(p["timeUnixNano"]), 0x31, int(p["asInt"])) for p in points])
    except (KeyError, TypeError, ValueError, OverflowError, struct.error):
        return None


def _number_point(point: dict[str, Any], points: Any, reader: Reader) -> None:
    if "asDouble" in point:
        name, value = "as_double", real(point["asDouble"])
    elif "asInt" in point:
        name, value = "as_int", whole(point["asInt"], "asInt")
        if not -(1 << 63) <= value < 1 << 63:
            raise Misfit("asInt does not fit 64 bits")
    elif whole(point.get("flags", 0), "flags") & 1:
        return
    else:
        raise Misfit("a point has no value")
    time = nanoseconds(point.get("timeUnixNano"))
    made = points.add(time_unix_nano=time)
    setattr(made, name, value)
    reader.attributes(point.get("attributes"), made.attributes)


def _distribution(point: dict[str, Any], points: Any, reader: Reader) -> None:
    time, count, total = nanoseconds(point.get("timeUnixNano")), whole(point.get("count", 0), "count"), real(point.get("sum", 0.0))
    if not 0 <= count < 1 << 64:
        raise Misfit("count does not fit 64 bits")
    made = points.add(time_unix_nano=time, count=count, sum=total)
    reader.attributes(point.get("attributes"), made.attributes)


def _log(item: dict[str, Any], out: Any, reader: Reader, rejected: Counter[str]) -> None:
    del rejected
    out.time_unix_nano = nanoseconds(item.get("timeUnixNano"))
    out.observed_time_unix_nano = nanoseconds(item.get("observedTimeUnixNano"))
    out.severity_number = _severity(item.get("severityNumber"))
    out.severity_text = reader.text(item.get("severityText"))
    out.event_name = reader.text(item.get("eventName"))
    if item.get("body") is not None:
        reader.value(item["body"], out.body)
    out.trace_id, out.span_id = identifier(item.get("traceId"), 16), identifier(item.get("spanId"), 8)
    reader.attributes(item.get("attributes"), out.attributes)
    _mark(reader, out.attributes)


def _span(item: dict[str, Any], out: Any, reader: Reader, rejected: Counter[str]) -> None:
    out.trace_id, out.span_id = identifier(item.get("traceId"), 16), identifier(item.get("spanId"), 8)
    out.name = reader.text(item.get("name"))
    out.start_time_unix_nano, out.end_time_unix_nano = nanoseconds(item.get("startTimeUnixNano")), nanoseconds(item.get("endTimeUnixNano"))
    reader.attributes(item.get("attributes"), out.attributes)
    for event in _objects(item.get("events"), "events", rejected):
        own = Reader()
        made = out.events.add(time_unix_nano=nanoseconds(event.get("timeUnixNano")), name=own.text(event.get("name")))
        own.attributes(event.get("attributes"), made.attributes)
        _mark(own, made.attributes)


def _severity(value: Any) -> int:
    if isinstance(value, str) and value.startswith(_SEVERITY_PREFIX):
        name = value.removeprefix(_SEVERITY_PREFIX)
        return _SEVERITIES.get(name.rstrip("234"), 0) + (int(name[-1]) - 1 if name[-1:] in "234" else 0)
    number = whole(value, "severityNumber") if value is not None else 0
    return number if 0 <= number <= 24 else 0


def _mark(reader: Reader, attributes: Any) -> None:
    if reader.mended:
        flag(attributes, names.REPAIRED, ", ".join(sorted(reader.mended)))
