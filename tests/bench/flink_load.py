"""Telemetry of many ranks as records of the input topic: 100 points a record, one record a rank a second."""

import time
from collections.abc import Iterator

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

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


def telemetry(ranks: int, seconds: int, start_ns: int, run: str = "load") -> Iterator[Record]:
    """Records in order of receipt, spread evenly over each second, with clock records in between."""
    clock_ms = start_ns // 1_000_000
    for second in range(seconds):
        for rank in range(ranks):
            received_ns = start_ns + second * SECOND_NS + rank * SECOND_NS // ranks
            while clock_ms <= received_ns // 1_000_000:
                yield Record(clock_ms, "", "clock")
                clock_ms += CLOCK_MS
            key = f"t/{run}-{rank}"
            yield Record(received_ns // 1_000_000, key, "metrics", _body(run, rank, ranks, second, received_ns))


def mark(when_ns: int, number: int) -> list[Record]:
    """One exception of a run of its own."""
    script = Script(1, run=f"mark-{number}", tenant="marks")
    script.exception(0.0, 0, "ValueError", f"number {number}")
    ((_, batch),) = script.sent
    batch.logs[0].time_ns = when_ns
    return [Record(when_ns // 1_000_000, f"marks/{batch.identity.process}", signal, body) for signal, body in requests(batch)]


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


def _body(run: str, rank: int, ranks: int, second: int, received_ns: int) -> bytes:
    request = ExportMetricsServiceRequest()
    part = request.resource_metrics.add()
    for name, text in ((names.INSTANCE, f"{run}-{rank}"), (names.RUN_ID, run), (names.HOST, f"node-{rank // 8}")):
        part.resource.attributes.add(key=name).value.string_value = text
    for name, number in ((names.RANK, rank), (names.WORLD_SIZE, ranks)):
        part.resource.attributes.add(key=name).value.int_value = number
    scope = part.scope_metrics.add()
    scope.scope.attributes.add(key=names.BATCH_SENDER).value.string_value = "sdk"
    scope.scope.attributes.add(key=names.BATCH_SEQ).value.int_value = second + 1
    times = [received_ns - (STEPS - i) * SECOND_NS // STEPS for i in range(STEPS)]
    steps = scope.metrics.add(name=names.STEP).gauge.data_points
    for i, time_ns in enumerate(times):
        steps.add(time_unix_nano=time_ns, as_int=second * STEPS + i)
    for metric in METRICS:
        points = scope.metrics.add(name=metric).gauge.data_points
        for i, time_ns in enumerate(times):
            points.add(time_unix_nano=time_ns, as_double=1.0 + 0.01 * ((second + i + rank) % 7))
    return request.SerializeToString()
