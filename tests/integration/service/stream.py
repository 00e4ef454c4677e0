"""A steady stream of points and marked log records from many processes, each request sent until it is acknowledged."""

import threading
import time
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from urllib.parse import urlsplit

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

METRICS = ("train.loss", "train.grad_norm", "train.learning_rate", "train.step.duration")
STEPS_PER_REQUEST = 25
POINTS_PER_REQUEST = (len(METRICS) + 1) * STEPS_PER_REQUEST
MARK_EVERY = 10
"""Requests of a process per marked log record."""


def attribute(key: str, value: str | int) -> KeyValue:
    """An OTLP attribute."""
    return KeyValue(key=key, value=AnyValue(int_value=value) if isinstance(value, int) else AnyValue(string_value=value))


def describe(run: str, rank: int, world_size: int, process: str) -> list[KeyValue]:
    """Resource attributes of one rank."""
    return [
        attribute("service.name", "train"),
        attribute("service.instance.id", process),
        attribute("train.run.id", run),
        attribute("train.rank", rank),
        attribute("train.world_size", world_size),
        attribute("host.name", f"node-{rank // 8}"),
    ]


@dataclass
class Process:
    """What one process has sent and had acknowledged."""

    run: str
    rank: int
    world_size: int
    sequence: int = 0
    step: int = 0
    acknowledged_steps: int = 0
    marks: set[str] = field(default_factory=set)

    @property
    def name(self) -> str:
        """`service.instance.id`."""
        return f"{self.run}-{self.rank}"

    def points(self, now_ns: int) -> bytes:
        """The next steps of every metric."""
        self.sequence += 1
        request = ExportMetricsServiceRequest()
        described = request.resource_metrics.add()
        described.resource.attributes.extend(describe(self.run, self.rank, self.world_size, self.name))
        scope = described.scope_metrics.add()
        scope.scope.attributes.extend([attribute("firstfault.batch.sender", "sdk"), attribute("firstfault.batch.seq", self.sequence)])
        times = [now_ns - (STEPS_PER_REQUEST - i) * 1_000_000 for i in range(STEPS_PER_REQUEST)]
        steps = scope.metrics.add(name="train.step").gauge.data_points
        for i, at in enumerate(times):
            steps.add(time_unix_nano=at, as_int=self.step + i)
        for metric in METRICS:
            values = scope.metrics.add(name=metric).gauge.data_points
            for i, at in enumerate(times):
                values.add(time_unix_nano=at, as_double=1.0 + 0.01 * (i % 7))
        self.step += STEPS_PER_REQUEST
        return request.SerializeToString()

    def mark(self, now_ns: int) -> tuple[str, bytes]:
        """A log record that can be told from all others, and its request."""
        self.sequence += 1
        text = f"mark {self.name} {self.sequence}"
        request = ExportLogsServiceRequest()
        described = request.resource_logs.add()
        described.resource.attributes.extend(describe(self.run, self.rank, self.world_size, self.name))
        scope = described.scope_logs.add()
        scope.scope.attributes.extend([attribute("firstfault.batch.sender", "sdk"), attribute("firstfault.batch.seq", self.sequence)])
        scope.log_records.add(time_unix_nano=now_ns, severity_number=13, event_name="app.mark", body=AnyValue(string_value=text))
        return text, request.SerializeToString()


class Stream:
    """Threads that share the processes of one run; every request is repeated, unchanged, until it is acknowledged."""

    def __init__(self, otlp_url: str, run: str, *, ranks: int, points_per_second: float, threads: int = 4) -> None:
        self._address = urlsplit(otlp_url).netloc
        self.processes = [Process(run, rank, ranks) for rank in range(ranks)]
        self._pause_s = POINTS_PER_REQUEST * threads / points_per_second
        self._stopping = threading.Event()
        self.repeated = 0
        self._threads = [threading.Thread(target=self._send, args=(self.processes[i::threads],), daemon=True) for i in range(threads)]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Send nothing new; returns when what is under way is acknowledged."""
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def acknowledged_points(self) -> int:
        """Points in acknowledged requests, steps included."""
        return sum(process.acknowledged_steps for process in self.processes) * (len(METRICS) + 1)

    def marks(self) -> set[str]:
        """Texts of the acknowledged marked records."""
        return {text for process in self.processes for text in process.marks}

    def _send(self, processes: list[Process]) -> None:
        due = time.monotonic()
        turn = 0
        while not self._stopping.is_set():
            process = processes[turn % len(processes)]
            turn += 1
            self._post("/v1/metrics", process.points(time.time_ns()))
            process.acknowledged_steps += STEPS_PER_REQUEST
            if turn // len(processes) % MARK_EVERY == 0:
                text, body = process.mark(time.time_ns())
                self._post("/v1/logs", body)
                process.marks.add(text)
            # An outage is not made up for, or the rate after it would not be the one asked for.
            due = max(due + self._pause_s, time.monotonic() - 1)
            self._stopping.wait(max(0.0, due - time.monotonic()))

    def _post(self, path: str, body: bytes) -> None:
        pause = threading.Event()
        while not post(self._address, path, body):
            self.repeated += 1
            pause.wait(0.05)


def post(address: str, path: str, body: bytes, key: str = "") -> bool:
    """One try, with an API key if one is given; True when it was acknowledged."""
    connection = HTTPConnection(address, timeout=10)
    try:
        shown = {"authorization": f"Bearer {key}"} if key else {}
        connection.request("POST", path, body, {"content-type": "application/x-protobuf", **shown})
        answer = connection.getresponse()
        answer.read()
        return answer.status == 200
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()
