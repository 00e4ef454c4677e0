"""What detection in Flink costs through Kafka, whether cost grows with ranks, whether it keeps up, and how soon an incident can be read."""

import threading
import time
from collections.abc import Iterable, Iterator, Sequence

import pytest

from deploy.native.servers.flink import Flink
from deploy.native.servers.kafka import Kafka
from firstfault_server.core import model
from firstfault_server.core.model import SECOND_NS
from firstfault_server.wire.outputs import INCIDENTS, RUNS
from tests.bench.flink_load import POINTS, clocks, cpu_s, failure, mark, telemetry, wall_ns
from tests.bench.machine import Meanwhile
from tests.parity.topics import Topics
from tests.unit.detect.recordings import Record

pytestmark = [pytest.mark.bench, pytest.mark.timeout(1200)]

RANKS = 100
SECONDS = 40
RATE = 120_000
"""Points a second that two cores must take."""
SUSTAINED_S = 60
BEHIND_S, TOLD_S, READ_S = 5.0, 10.0, 5.0
"""Bounds for the whole machine; with a share of it they are longer (`Meanwhile.left`)."""
LARGE_RUN, LARGE_S, FAILED = 4096, 15, 77
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
        self.topics, self._kafka, self._flink, self._marks = Topics(kafka.address, 1, [RUNS, INCIDENTS]), kafka, flink, 0
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

    def meanwhile(self) -> Meanwhile:
        """From now on, with what the servers take."""
        broker = self._kafka.pid
        assert broker is not None, "the broker has ended"
        return Meanwhile(taskmanager=self._flink.pids[0], broker=broker)

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
        job.topics.write([*telemetry(ranks, 20, start, "warm")])
        job.catch_up(start + 22 * SECOND_NS)
        records = list(telemetry(ranks, seconds, start + 30 * SECOND_NS))
        cpu, began = job.cpu_s(), time.monotonic()
        job.topics.write(records)
        job.catch_up(start + (32 + seconds) * SECOND_NS)
        points = ranks * seconds * POINTS
        return (job.cpu_s() - cpu) / points * 1e6, points / (time.monotonic() - began)


def test_cost_a_point_does_not_grow_with_ranks(kafka: Kafka, flink: Flink) -> None:
    # The JVM compiles what runs often; the first measurement would have to pay for it.
    drained(kafka, flink, RANKS, SECONDS)
    costs = {}
    for times in (1, 2, 4):
        costs[times], rate = drained(kafka, flink, RANKS * times, 4 * SECONDS // times)
        print(f"\n{RANKS * times} ranks: {costs[times]:.2f} µs of CPU a point through Kafka and Flink, {rate:,.0f} points/s", end="")
    assert costs[4] < 1.5 * costs[1]


def test_two_cores_keep_up_with_a_large_fleet(kafka: Kafka, flink: Flink) -> None:
    ranks = RATE // POINTS
    with Job(kafka, flink) as job:
        # Receive times are those of a moment ago, since building takes time; what matters is the pace.
        start = wall_ns()
        slots = slotted(telemetry(ranks, SUSTAINED_S, start), start)
        meanwhile = job.meanwhile()
        sent = play(job, slots)
        behind = job.catch_up(start + (SUSTAINED_S + 1) * SECOND_NS)
        left = meanwhile.left()
        costs = ", ".join(f"{name} {cpu / (RATE * SUSTAINED_S) * 1e6:.2f}" for name, cpu in meanwhile.cpu_s().items())
        print(
            f"\n{RATE:,} points/s for {sent:.1f} s, the end was read {behind:.1f} s later; µs of CPU a point: {costs}; {left:.0%} left",
            end="",
        )
        assert sent * left < SUSTAINED_S / 0.95
        assert behind * left < BEHIND_S


def slotted(records: Iterable[Record], start_ns: int) -> list[list[Record]]:
    """Records by tenths of a second of their receive times."""
    slots: dict[int, list[Record]] = {}
    for record in records:
        slots.setdefault((record.received_ms - start_ns // 1_000_000) // 100, []).append(record)
    return [records for _, records in sorted(slots.items())]


def play(job: Job, slots: Sequence[Sequence[Record]]) -> float:
    """Write each slot when its tenth of a second is over; how long all took, seconds."""
    pause, began = threading.Event(), time.monotonic()
    for number, records in enumerate(slots):
        pause.wait(max(0.0, began + (number + 1) * 0.1 - time.monotonic()))
        job.topics.write(records)
    return time.monotonic() - began


def test_a_failure_among_4096_ranks_is_told_in_time(kafka: Kafka, flink: Flink) -> None:
    """Every rank sends one step of ten numbers a second."""
    with Job(kafka, flink) as job:
        start = wall_ns()
        slots = slotted(telemetry(LARGE_RUN, LARGE_S, start, "large", steps=1), start)
        meanwhile = job.meanwhile()
        sent = play(job, slots)
        failed = time.monotonic()
        job.topics.write([failure("large", FAILED, LARGE_RUN, start + LARGE_S * SECOND_NS), *clocks(start + LARGE_S * SECOND_NS, 2)])
        job.topics.read_until(lambda _: any(isinstance(one, model.Incident) for one in job.topics.found), PATIENCE_S)
        told = time.monotonic() - failed
        (incident, *_) = [one for one in job.topics.found if isinstance(one, model.Incident)]
        left = meanwhile.left()
        cost = meanwhile.cpu_s()["taskmanager"] / (LARGE_RUN * LARGE_S) * 1e6
        print(
            f"\n{LARGE_RUN} ranks for {sent:.1f} s: the failure could be read after {told:.2f} s; "
            f"TaskManager {cost:.0f} µs of CPU a record; {left:.0%} left",
            end="",
        )
        assert incident.first_fault.rank == FAILED
        assert told * left < TOLD_S


@pytest.mark.parametrize("guarantee", ["exactly-once", "at-least-once"])
def test_an_incident_can_be_read_soon_after_its_exception(kafka: Kafka, flink: Flink, guarantee: str) -> None:
    with Job(kafka, flink, "--flink-guarantee", guarantee) as job:
        job.catch_up(wall_ns())
        meanwhile = job.meanwhile()
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
        assert waits[len(waits) // 2] * meanwhile.left() < READ_S
