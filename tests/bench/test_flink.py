"""What detection in Flink costs through Kafka, whether cost grows with ranks, whether it keeps up, and how soon an incident can be read."""

import os
import threading
import time
from collections.abc import Iterator

import pytest

from deploy.native.servers.flink import Flink
from deploy.native.servers.kafka import Kafka
from firstfault_server.core import model
from firstfault_server.core.model import SECOND_NS
from firstfault_server.wire.outputs import INCIDENTS, RUNS
from tests.bench.flink_load import POINTS, clocks, cpu_s, mark, telemetry, wall_ns
from tests.parity.topics import Topics

pytestmark = [pytest.mark.bench, pytest.mark.timeout(1200)]

RANKS = 100
SECONDS = 40
RATE = 120_000
"""Points a second that two cores must take."""
SUSTAINED_S = 20
EXCEPTIONS = 20
PATIENCE_S = 240.0


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    """A broker that is compiled to run well, not to start soon."""
    broker = Kafka(tmp_path_factory.mktemp("kafka"), heap="384m", quick=False)
    broker.start()
    yield broker
    broker.stop()


@pytest.fixture(scope="module")
def flink(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flink]:
    """One JobManager, one TaskManager."""
    cluster = Flink(tmp_path_factory.mktemp("flink"), heap="768m")
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


class Job:
    """A running job with topics of its own."""

    def __init__(self, kafka: Kafka, flink: Flink, *arguments: str) -> None:
        self.topics, self._flink, self._marks = Topics(kafka.address, 1, [RUNS, INCIDENTS]), flink, 0
        self.id = flink.submit("--kafka-bootstrap", kafka.address, "--kafka-prefix", self.topics.prefix, *arguments)

    def __enter__(self) -> "Job":
        return self

    def __exit__(self, *_: object) -> None:
        self._flink.rest.cancel(self.id, PATIENCE_S)
        self.topics.close()

    def cpu_s(self) -> float:
        """CPU seconds of the TaskManager."""
        (pid,) = self._flink.pids
        return cpu_s(pid)

    def catch_up(self, when_ns: int) -> float:
        """Send one failure more and wait for it: everything before it was worked off then; how long that took."""
        self._marks += 1
        began = time.monotonic()
        self.topics.write([*mark(when_ns, self._marks), *clocks(when_ns + SECOND_NS, 5)])
        run = f"mark-{self._marks}"
        found = self.topics.read_until(lambda so_far: any(key[1] == run for key in so_far.runs), PATIENCE_S)
        assert any(key[1] == run for key in found.runs)
        return time.monotonic() - began


def drained(kafka: Kafka, flink: Flink, ranks: int, seconds: int) -> tuple[float, float]:
    """CPU microseconds a point of the TaskManager, and points a second, while it works off what has been written."""
    with Job(kafka, flink) as job:
        start = wall_ns() - (2 * seconds + 120) * SECOND_NS
        # The first seconds are for whatever is compiled and learnt once.
        job.topics.write([*telemetry(ranks, 10, start, "warm")])
        job.catch_up(start + 12 * SECOND_NS)
        records = list(telemetry(ranks, seconds, start + 20 * SECOND_NS))
        cpu, began = job.cpu_s(), time.monotonic()
        job.topics.write(records)
        job.catch_up(start + (22 + seconds) * SECOND_NS)
        points = ranks * seconds * POINTS
        return (job.cpu_s() - cpu) / points * 1e6, points / (time.monotonic() - began)


def test_cost_a_point_does_not_grow_with_ranks(kafka: Kafka, flink: Flink) -> None:
    costs = {}
    for times in (1, 2, 4):
        costs[times], rate = drained(kafka, flink, RANKS * times, 4 * SECONDS // times)
        print(f"\n{RANKS * times} ranks: {costs[times]:.2f} µs of CPU a point through Kafka and Flink, {rate:,.0f} points/s", end="")
    assert costs[4] < 1.5 * costs[1]


def test_two_cores_keep_up_with_a_large_fleet(kafka: Kafka, flink: Flink) -> None:
    ranks = RATE // POINTS
    with Job(kafka, flink) as job:
        built = list(telemetry(ranks, SUSTAINED_S, 0))
        start, cpu = wall_ns(), job.cpu_s()
        by_slot: dict[int, list[int]] = {}
        for i, record in enumerate(built):
            by_slot.setdefault(record.received_ms // 100, []).append(i)
        shifted = list(telemetry(ranks, SUSTAINED_S, start))
        began = time.monotonic()
        pause = threading.Event()
        for slot, places in sorted(by_slot.items()):
            pause.wait(max(0.0, began + (slot + 1) * 0.1 - time.monotonic()))
            job.topics.write([shifted[i] for i in places])
        sent = time.monotonic() - began
        behind = job.catch_up(start + round(max(sent, SUSTAINED_S) * SECOND_NS))
        cores = (job.cpu_s() - cpu) / (time.monotonic() - began)
        print(f"\n{RATE:,} points/s for {sent:.1f} s: TaskManager {cores:.2f} cores, the end was read {behind:.1f} s later", end="")
        assert sent < 1.5 * SUSTAINED_S
        assert behind < 5.0 * (5 if (os.getloadavg()[0] > 4) else 1)


@pytest.mark.parametrize("guarantee", ["exactly-once", "at-least-once"])
def test_an_incident_can_be_read_soon_after_its_exception(kafka: Kafka, flink: Flink, guarantee: str) -> None:
    with Job(kafka, flink, "--flink-guarantee", guarantee) as job:
        job.catch_up(wall_ns())
        pause, waits = threading.Event(), []
        for number in range(100, 100 + EXCEPTIONS):
            # Out of step with the checkpoints.
            pause.wait(0.37)
            job.topics.write(clocks(wall_ns(), 0.1))
            sent = time.time()
            job.topics.write(mark(wall_ns(), number))

            def there(_: object, run: str = f"mark-{number}") -> bool:
                return any(isinstance(one, model.Incident) and one.run.id == run for one in job.topics.found[-50:])

            job.topics.read_until(there, PATIENCE_S)
            waits.append(time.time() - sent)
        waits.sort()
        print(f"\n{guarantee}: exception to incident read {waits[len(waits) // 2]:.2f} s median, {waits[-1]:.2f} s at most", end="")
        assert waits[len(waits) // 2] < 5.0
