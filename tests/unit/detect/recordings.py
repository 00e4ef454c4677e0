"""Scripts as the records of the input topic that ingest would have written."""

import random
from collections.abc import Iterator

import msgspec
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from firstfault import conventions as names
from firstfault_server.core import model
from firstfault_server.ports import Signal
from tests.property.scripts import T0, Arrival, Script, at

CLOCK_MS = 250


class Record(msgspec.Struct, frozen=True):
    """One record of the topic; a clock record has no key."""

    received_ms: int
    key: str
    signal: Signal
    body: bytes = b""


def recording(script: Script, until: float, arrival: Arrival | None = None, *, outage: tuple[float, float] | None = None) -> list[Record]:
    """What one script sends, in order of receipt, with clock records; in an outage ingest is away, and what was sent comes after it."""
    how = arrival or Arrival()
    chance = random.Random(how.seed)
    end_ms = at(until) // 1_000_000
    down = (0, 0) if outage is None else (at(outage[0]) // 1_000_000, at(outage[0] + outage[1]) // 1_000_000)
    found: list[Record] = [Record(ms, "", "clock") for ms in range(T0 // 1_000_000, end_ms, CLOCK_MS) if not down[0] < ms < down[1]]
    for when, batch in script.sent:
        for _ in range(2 if chance.random() < how.repeats else 1):
            received = at(when) // 1_000_000 + 20 + round(chance.random() * how.jitter_s * 1000)
            if down[0] < received < down[1]:
                received = down[1]
            key = f"{batch.identity.tenant}/{batch.identity.process}"
            found += [Record(received, key, signal, body) for signal, body in requests(batch)]
    return sorted((one for one in found if one.received_ms < end_ms), key=lambda one: one.received_ms)


def requests(batch: model.Batch) -> Iterator[tuple[Signal, bytes]]:
    """A batch as the OTLP request it came in; a script's batch has points or log records, never both."""
    assert not (batch.series and batch.logs)
    if batch.series:
        metrics = ExportMetricsServiceRequest()
        resource = metrics.resource_metrics.add()
        _identify(resource.resource.attributes, batch.identity)
        points = resource.scope_metrics.add()
        _number(points.scope.attributes, batch)
        for series in batch.series:
            gauge = points.metrics.add(name=series.metric).gauge
            for time_ns, value in zip(series.times_ns, series.values, strict=True):
                gauge.data_points.add(time_unix_nano=time_ns, as_double=value)
        yield "metrics", metrics.SerializeToString()
    if batch.logs:
        logs = ExportLogsServiceRequest()
        owner = logs.resource_logs.add()
        _identify(owner.resource.attributes, batch.identity)
        lines = owner.scope_logs.add()
        _number(lines.scope.attributes, batch)
        for one in batch.logs:
            line = lines.log_records.add(time_unix_nano=one.time_ns, event_name=one.event_name, severity_number=one.severity)
            if one.body:
                line.body.string_value = one.body
            for name, attribute in one.attributes.items():
                _attribute(line.attributes, name, attribute)
        yield "logs", logs.SerializeToString()


def _number(pairs: object, batch: model.Batch) -> None:
    if batch.sequence is not None:
        _attribute(pairs, names.BATCH_SENDER, batch.sender)
        _attribute(pairs, names.BATCH_SEQ, batch.sequence)


RESOURCE = {
    names.INSTANCE: "process",
    names.RUN_ID: "run",
    names.RANK: "rank",
    names.LOCAL_RANK: "local_rank",
    names.WORLD_SIZE: "world_size",
    names.ROLE: "role",
    names.HOST: "node",
    names.CLUSTER: "cluster",
    names.PID: "pid",
}


def _identify(pairs: object, who: model.Identity) -> None:
    for name, field in RESOURCE.items():
        value = getattr(who, field)
        if value not in (None, ""):
            _attribute(pairs, name, value)


def _attribute(pairs: object, name: str, value: object) -> None:
    into = pairs.add(key=name).value  # type: ignore[attr-defined]
    if isinstance(value, list):
        for item in value:
            into.array_value.values.add(string_value=str(item))
    elif isinstance(value, bool):
        into.bool_value = value
    elif isinstance(value, int):
        into.int_value = value
    elif isinstance(value, float):
        into.double_value = value
    else:
        into.string_value = str(value)
