"""OTLP requests for tests, as protobuf messages and as JSON documents."""

from collections.abc import Mapping, Sequence
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

NOW = 1_790_000_000_000_000_000
SECOND = 1_000_000_000


def value(given: Any) -> AnyValue:
    out = AnyValue()
    if isinstance(given, bool):
        out.bool_value = given
    elif isinstance(given, int):
        out.int_value = given
    elif isinstance(given, float):
        out.double_value = given
    elif isinstance(given, bytes):
        out.bytes_value = given
    elif isinstance(given, list):
        out.array_value.values.extend([value(v) for v in given])
    elif isinstance(given, dict):
        out.kvlist_value.values.extend(pairs(given))
    else:
        out.string_value = given
    return out


def pairs(given: Mapping[str, Any]) -> list[KeyValue]:
    return [KeyValue(key=k, value=value(v)) for k, v in given.items()]


def resource(process: str | None = "p0", run: str | None = "run1", **more: Any) -> dict[str, Any]:
    found: dict[str, Any] = {k.replace("__", "."): v for k, v in more.items()}
    if process is not None:
        found["service.instance.id"] = process
    if run is not None:
        found["train.run.id"] = run
    return found


def metrics(
    gauges: Mapping[str, Sequence[tuple[int, float | int]]],
    of: Mapping[str, Any] | None = None,
    scope: Mapping[str, Any] | None = None,
    into: ExportMetricsServiceRequest | None = None,
) -> ExportMetricsServiceRequest:
    request = into if into is not None else ExportMetricsServiceRequest()
    described = request.resource_metrics.add()
    described.resource.attributes.extend(pairs(resource() if of is None else of))
    held = described.scope_metrics.add()
    held.scope.attributes.extend(pairs(scope or {}))
    for name, points in gauges.items():
        metric = held.metrics.add(name=name)
        for time, number in points:
            if isinstance(number, int):
                metric.gauge.data_points.add(time_unix_nano=time, as_int=number)
            else:
                metric.gauge.data_points.add(time_unix_nano=time, as_double=number)
    return request


def logs(
    records: Sequence[Mapping[str, Any]],
    of: Mapping[str, Any] | None = None,
    scope: Mapping[str, Any] | None = None,
    into: ExportLogsServiceRequest | None = None,
) -> ExportLogsServiceRequest:
    """Each record: fields of a LogRecord, with `attributes` as a dict and `body` as a plain value."""
    request = into if into is not None else ExportLogsServiceRequest()
    described = request.resource_logs.add()
    described.resource.attributes.extend(pairs(resource() if of is None else of))
    held = described.scope_logs.add()
    held.scope.attributes.extend(pairs(scope or {}))
    for given in records:
        fields = dict(given)
        record = held.log_records.add(time_unix_nano=fields.pop("time_unix_nano", NOW))
        record.attributes.extend(pairs(fields.pop("attributes", {})))
        if "body" in fields:
            record.body.CopyFrom(value(fields.pop("body")))
        for name, content in fields.items():
            setattr(record, name, content)
    return request


def json_value(given: Any) -> dict[str, Any]:
    if isinstance(given, bool):
        return {"boolValue": given}
    if isinstance(given, int):
        return {"intValue": str(given)}
    if isinstance(given, float):
        return {"doubleValue": given}
    if isinstance(given, list):
        return {"arrayValue": {"values": [json_value(v) for v in given]}}
    return {"stringValue": given}


def json_pairs(given: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"key": k, "value": json_value(v)} for k, v in given.items()]


def json_metrics(points: Mapping[str, Sequence[Any]], of: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Gauges of points given as JSON; anything can be put in their place."""
    described = {"attributes": json_pairs(resource() if of is None else of)}
    gauges = [{"name": name, "gauge": {"dataPoints": list(own)}} for name, own in points.items()]
    return {"resourceMetrics": [{"resource": described, "scopeMetrics": [{"metrics": gauges}]}]}


def json_logs(records: Sequence[Any], of: Mapping[str, Any] | None = None) -> dict[str, Any]:
    described = {"attributes": json_pairs(resource() if of is None else of)}
    return {"resourceLogs": [{"resource": described, "scopeLogs": [{"logRecords": list(records)}]}]}
