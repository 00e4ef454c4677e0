"""Telemetry of many ranks as records of the input topic: 100 points a record, one record a rank a second."""

import time
from collections.abc import Iterator

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from firstfault import conventions as names
from firstfault_server.core.model import SECOND_NS
from tests.property.scripts import Script
from tests.unit.detect.recordings import CLOCK_MS, Record, requests

STEPS = 10
"""Steps that a rank logs in a second."""
METRICS = (
    names.LOSS,
    names.GRAD_NORM,
    names.LEARNING_RATE,
    names.STEP_DURATION,
    names.DATA_WAIT,
    names.COLLECTIVE_WAIT,
    names.GPU_ALLOCATED,
    names.GPU_RESERVED,
    "custom.metric",
)
POINTS = STEPS * (len(METRICS) + 1)


def telemetry(ranks: int, seconds: int, start_ns: int, run: str = "load", steps: int = STEPS) -> Iterator[Record]:
    """Records in order of receipt, spread evenly over each second, with clock records in between; `steps` a rank logs in a second."""
    clock_ms = start_ns // 1_000_000
    for second in range(seconds):
        for rank in range(ranks):
            received_ns = start_ns + second * SECOND_NS + rank * SECOND_NS // ranks
            while clock_ms <= received_ns // 1_000_000:
                yield Record(clock_ms, "", "clock")
                clock_ms += CLOCK_MS
            key = f"t/{run}-{rank}"
            yield Record(received_ns // 1_000_000, key, "metrics", _body(run, rank, ranks, second, received_ns, steps))


def mark(when_ns: int, number: int) -> list[Record]:
    """One exception of a run of its own."""
    script = Script(1, run=f"mark-{number}", tenant="marks")
    script.exception(0.0, 0, "ValueError", f"number {number}")
    ((_, batch),) = script.sent
    batch.logs[0].time_ns = when_ns
    return [Record(when_ns // 1_000_000, f"marks/{batch.identity.process}", signal, body) for signal, body in requests(batch)]


def failure(run: str, rank: int, ranks: int, when_ns: int) -> Record:
    """An exception that ends one rank of a run of `telemetry`."""
    request = ExportLogsServiceRequest()
    part = request.resource_logs.add()
    _describe(part.resource, run, rank, ranks)
    scope = part.scope_logs.add()
    scope.scope.attributes.add(key=names.BATCH_SENDER).value.string_value = "sdk"
    scope.scope.attributes.add(key=names.BATCH_SEQ).value.int_value = 1_000_000
    record = scope.log_records.add(time_unix_nano=when_ns, severity_number=21, event_name=names.EXCEPTION)
    record.attributes.add(key="exception.type").value.string_value = "ValueError"
    record.attributes.add(key="exception.message").value.string_value = "a sample has no label"
    record.attributes.add(key=names.EXCEPTION_FATAL).value.bool_value = True
    return Record(when_ns // 1_000_000, f"t/{run}-{rank}", "logs", request.SerializeToString())


def clocks(start_ns: int, seconds: float) -> list[Record]:
    """Time that goes on."""
    first = start_ns // 1_000_000
    return [Record(ms, "", "clock") for ms in range(first, first + round(seconds * 1000), CLOCK_MS)]


def cpu_s(pid: int) -> float:
    """CPU seconds that a process has used."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:  # noqa: PTH123
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def wall_ns() -> int:
    """Wall clock in whole milliseconds, as topics keep it."""
    return time.time_ns() // 1_000_000 * 1_000_000


def _describe(resource: Resource, run: str, rank: int, ranks: int) -> None:
    for name, text in ((names.INSTANCE, f"{run}-{rank}"), (names.RUN_ID, run), (names.HOST, f"node-{rank // 8}")):
        resource.attributes.add(key=name).value.string_value = text
    for name, number in ((names.RANK, rank), (names.WORLD_SIZE, ranks)):
        resource.attributes.add(key=name).value.int_value = number


def _body(run: str, rank: int, ranks: int, second: int, received_ns: int, count: int) -> bytes:
    request = ExportMetricsServiceRequest()
    part = request.resource_metrics.add()
    _describe(part.resource, run, rank, ranks)
    scope = part.scope_metrics.add()
    scope.scope.attributes.add(key=names.BATCH_SENDER).value.string_value = "sdk"
    scope.scope.attributes.add(key=names.BATCH_SEQ).value.int_value = second + 1
    times = [received_ns - (count - i) * SECOND_NS // count for i in range(count)]
    steps = scope.metrics.add(name=names.STEP).gauge.data_points
    for i, time_ns in enumerate(times):
        steps.add(time_unix_nano=time_ns, as_int=second * count + i)
    for metric in METRICS:
        points = scope.metrics.add(name=metric).gauge.data_points
        for i, time_ns in enumerate(times):
            points.add(time_unix_nano=time_ns, as_double=1.0 + 0.01 * ((second + i + rank) % 7))
    return request.SerializeToString()
