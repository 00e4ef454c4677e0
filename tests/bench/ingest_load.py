"""A load generator for OTLP/HTTP: prepared requests over kept connections, at a steady rate. Runs as a process of its own.

Usage: python -m tests.bench.ingest_load HOST PORT POINTS_PER_SECOND SECONDS [json]; prints what was acknowledged as JSON.
"""

import asyncio
import json
import struct
import sys
import time
from collections.abc import Iterable, Iterator

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import NumberDataPoint

PROCESSES = 1200
METRICS = (
    "step",
    "loss",
    "grad_norm",
    "learning_rate",
    "step.duration",
    "data.wait",
    "collective.wait",
    "loss_scale",
    "tokens_per_second",
    "extra",
)
POINTS_PER_METRIC = 10
CONNECTIONS = 200
"""Every training process keeps one of its own; so many already hide the wait for the disk, as theirs would."""


class Template:
    """A request of one process as bytes, whose times, steps and batch number are patched in place."""

    def __init__(self, number: int) -> None:
        request = ExportMetricsServiceRequest()
        described = request.resource_metrics.add()
        for key, value in (
            ("service.instance.id", f"load-{number:05d}"),
            ("train.run.id", f"load-{number // 300}"),
            ("host.name", f"node-{number // 8:03d}"),
            ("service.name", "train"),
        ):
            described.resource.attributes.append(KeyValue(key=key, value=AnyValue(string_value=value)))
        for key, count in (("train.rank", number % 300), ("train.world_size", 300), ("process.pid", number + 1000)):
            described.resource.attributes.append(KeyValue(key=key, value=AnyValue(int_value=count)))
        scope = described.scope_metrics.add()
        scope.scope.attributes.append(KeyValue(key="firstfault.batch.sender", value=AnyValue(string_value="sdk")))
        # Five bytes of varint for any number, longer than need be for most, so that the length never changes.
        scope.scope.attributes.append(KeyValue(key="firstfault.batch.seq", value=AnyValue(int_value=1 << 28)))
        for metric in METRICS:
            points = scope.metrics.add(name=f"train.{metric}").gauge.data_points
            for i in range(POINTS_PER_METRIC):
                if metric == "step":
                    points.add(time_unix_nano=1 << 60, as_int=i)
                else:
                    points.add(time_unix_nano=1 << 60, as_double=1.0 + 0.01 * ((number + i) % 7))
        self.body = bytearray(request.SerializeToString())
        self._times, self._steps = [], []
        at = self.body.find(b"\x19" + struct.pack("<Q", 1 << 60))
        while at >= 0:
            self._times.append(at + 1)
            if self.body[at + 9] == 0x31:
                self._steps.append(at + 10)
            at = self.body.find(b"\x19" + struct.pack("<Q", 1 << 60), at + 1)
        self._number = self.body.find(_varint(1 << 28))
        self._sent = 0

    def next(self, now_ns: int) -> bytes:
        """The request of this second: ten steps, 0.1 s apart."""
        pack = struct.Struct("<Q").pack_into
        for i, at in enumerate(self._times):
            pack(self.body, at, now_ns - (POINTS_PER_METRIC - 1 - i % POINTS_PER_METRIC) * 100_000_000)
        for i, at in enumerate(self._steps):
            pack(self.body, at, self._sent * POINTS_PER_METRIC + i)
        self._sent += 1
        self.body[self._number : self._number + 5] = _varint(self._sent)
        return bytes(self.body)


def _varint(value: int) -> bytes:
    return bytes([*((value >> 7 * i) & 0x7F | 0x80 for i in range(4)), value >> 28])


def as_json(body: bytes) -> bytes:
    """The same request as the SDK's JSON exporter writes it."""
    request = ExportMetricsServiceRequest.FromString(body)

    def attributes(pairs: Iterable[KeyValue]) -> list[dict[str, object]]:
        return [{"key": p.key, "value": _json_value(p.value)} for p in pairs]

    described = request.resource_metrics[0]
    scope = described.scope_metrics[0]
    metrics = [{"name": m.name, "gauge": {"dataPoints": [_json_point(p) for p in m.gauge.data_points]}} for m in scope.metrics]
    held = {"scope": {"name": "firstfault", "attributes": attributes(scope.scope.attributes)}, "metrics": metrics}
    resource = {"attributes": attributes(described.resource.attributes)}
    return json.dumps({"resourceMetrics": [{"resource": resource, "scopeMetrics": [held]}]}).encode()


def _json_value(value: AnyValue) -> dict[str, str]:
    return {"intValue": str(value.int_value)} if value.WhichOneof("value") == "int_value" else {"stringValue": value.string_value}


def _json_point(point: NumberDataPoint) -> dict[str, object]:
    value = {"asInt": str(point.as_int)} if point.WhichOneof("value") == "as_int" else {"asDouble": point.as_double}
    return {"timeUnixNano": str(point.time_unix_nano), **value}


async def main(host: str, port: int, rate: float, seconds: float, as_text: bool) -> None:
    """Send for so long; each connection takes the next request when its last one was answered."""
    templates = [Template(i) for i in range(PROCESSES)]
    per_request = len(METRICS) * POINTS_PER_METRIC
    start = time.monotonic()
    counts = {"sent": 0, "accepted": 0, "refused": 0, "late": 0}
    latencies: list[float] = []

    def schedule() -> Iterator[tuple[float, bytes]]:
        for i in range(int(rate * seconds / per_request)):
            at = start + i * per_request / rate
            body = templates[i % PROCESSES].next(time.time_ns())
            yield at, as_json(body) if as_text else body

    work = schedule()
    media = "application/json" if as_text else "application/x-protobuf"

    async def connection() -> None:
        reader, writer = await asyncio.open_connection(host, port)
        for at, body in work:
            pause = at - time.monotonic()
            if pause > 0:
                await asyncio.sleep(pause)
            elif pause < -1:
                counts["late"] += 1
            begin = time.monotonic()
            head = f"POST /v1/metrics HTTP/1.1\r\nhost: {host}\r\ncontent-type: {media}\r\ncontent-length: {len(body)}\r\n\r\n"
            writer.write(head.encode() + body)
            counts["sent"] += per_request
            answer = await reader.readuntil(b"\r\n\r\n")
            length = next((int(line[15:]) for line in answer.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0)
            if length:
                await reader.readexactly(length)
            latencies.append(time.monotonic() - begin)
            counts["accepted" if answer.startswith(b"HTTP/1.1 200") else "refused"] += per_request
        writer.close()

    await asyncio.gather(*(connection() for _ in range(CONNECTIONS)))
    latencies.sort()
    took = time.monotonic() - start
    p50, p99 = (latencies[int(len(latencies) * share)] * 1e3 for share in (0.5, 0.99))
    summary = {**counts, "seconds": took, "p50_ms": p50, "p99_ms": p99}
    sys.stdout.write(json.dumps(summary) + "\n")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4]), "json" in sys.argv[5:]))
