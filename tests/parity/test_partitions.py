"""Of twelve partitions one has records and the others only clocks: incidents are as soon there as with records in all."""

import statistics
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import pytest
from confluent_kafka import Producer

from deploy.native.servers.flink import Flink
from firstfault_server.adapters.kafka.records import encode
from firstfault_server.core import model
from firstfault_server.core.model import SECOND_NS
from firstfault_server.wire.outputs import INCIDENTS
from tests.bench.machine import Meanwhile
from tests.parity.topics import INPUT, Topics
from tests.property.scripts import T0, Script
from tests.unit.detect.recordings import CLOCK_MS, Record, requests

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

PARTITIONS: Final = 12
ONE: Final = (7,)
ALL: Final = range(PARTITIONS)
STEADY: Final = 12
"""Processes of a job that nothing happens to."""
FAILURES, APART_S = 8, 0.6
"""Runs that fail, and the time from one to the next; out of step with checkpoints and drains."""
DRAIN_S: Final = 1.0
"""Node, run and fleet take what has gathered once a second."""
PATIENCE_S: Final = 90.0


class Live:
    """Jobs that run now, written to chosen partitions as ingest would have; clocks go on in every partition meanwhile."""

    def __init__(self, topics: Topics) -> None:
        self._topics, self._input = topics, topics.name(INPUT)
        self._producer = Producer({"bootstrap.servers": topics.address, "acks": "all", "linger.ms": 0})
        self._stopping = threading.Event()
        self._clock = threading.Thread(target=self._tick, daemon=True)

    @contextmanager
    def going(self) -> Iterator[None]:
        """With time that goes on."""
        self._clock.start()
        try:
            yield
        finally:
            self._stopping.set()
            self._clock.join()

    def _tick(self) -> None:
        while not self._stopping.wait(CLOCK_MS / 1000):
            self._topics.write([Record(time.time_ns() // 1_000_000, "", "clock")])

    def play(self, name: str, partitions: Sequence[int], failures: int) -> "Delays":
        """A steady job and several of two ranks of which one fails; how long each incident took."""
        steady = Script(STEADY, run=f"steady-{name}", tenant=name)
        jobs = [Script(2, run=f"{name}-{number}", tenant=name) for number in range(failures)]
        delays = Delays([job.run for job in jobs])
        began = time.monotonic()
        over = threading.Event()

        def write() -> None:
            for number, job in enumerate(jobs):
                if over.wait(max(0.0, began + number * APART_S - time.monotonic())):
                    return
                # Everybody takes a step, then one fails.
                for script in (steady, *jobs[number:]):
                    for rank in range(script.ranks):
                        script.step(now(), rank, number + 1)
                self._send((steady, *jobs), partitions)
                job.exception(now(), 1, "ValueError", f"{job.run} has no label", step=number + 1)
                job.exit(now(), 1, "failed", code=1)
                delays.failed[job.run] = time.monotonic()
                self._send([job], partitions)

        writer = threading.Thread(target=write)
        writer.start()
        try:
            self._topics.read_until(lambda _: delays.look(self._topics.found), PATIENCE_S)
        finally:
            over.set()
            writer.join()
        assert delays.look(self._topics.found), f"{name}: not all incidents came: {sorted(delays.settled)}"
        return delays

    def _send(self, scripts: Sequence[Script], partitions: Sequence[int]) -> None:
        for script in scripts:
            for _, batch in script.sent:
                place = partitions[hash_of(batch.identity) % len(partitions)]
                for signal, body in requests(batch):
                    key = f"{batch.identity.tenant}/{batch.identity.process}"
                    record = encode(self._topics.entry(Record(time.time_ns() // 1_000_000, key, signal, body)))
                    self._producer.produce(
                        self._input,
                        record.value,
                        record.key,
                        place,
                        timestamp=record.timestamp_ms,
                        headers=[(name, value) for name, value in record.headers],
                    )
            script.sent.clear()
        assert self._producer.flush(30) == 0


class Delays:
    """Seconds from each failure to the first message about it that could be read, and to the one that is settled."""

    def __init__(self, runs: Sequence[str]) -> None:
        self._runs = frozenset(runs)
        self._looked = 0
        self.failed: dict[str, float] = {}
        self.opened: dict[str, float] = {}
        self.settled: dict[str, float] = {}

    def look(self, found: Sequence[object]) -> bool:
        """Note what is new; whether all are settled."""
        now_s = time.monotonic()
        for one in found[self._looked :]:
            if isinstance(one, model.Incident) and one.run.id in self._runs:
                self.opened.setdefault(one.run.id, now_s - self.failed[one.run.id])
                if one.first_fault.status == "settled":
                    assert one.first_fault.rank == 1 and one.page
                    self.settled.setdefault(one.run.id, now_s - self.failed[one.run.id])
        self._looked = len(found)
        return self.settled.keys() == self._runs


def hash_of(who: model.Identity) -> int:
    """Spreads processes evenly."""
    return sum(who.process.encode())


def now() -> float:
    """In the time of scripts."""
    return (time.time_ns() - T0) / SECOND_NS


@pytest.mark.parametrize("parallelism", [1, 2])
def test_partitions_without_records_hold_up_no_incident(kafka_address: str, flink: Flink, parallelism: int) -> None:
    topics = Topics(kafka_address, PARTITIONS, [INCIDENTS])
    live = Live(topics)
    job = flink.submit("--kafka-bootstrap", kafka_address, "--kafka-prefix", topics.prefix, "--flink-parallelism", str(parallelism))
    try:
        with live.going():
            # What is compiled and learnt once is no part of the comparison.
            live.play("first", ALL, 2)
            everywhere = live.play("all", ALL, FAILURES)
            meanwhile = Meanwhile(**{f"flink-{pid}": pid for pid in (flink.jobmanager_pid, *flink.pids) if pid is not None})
            alone = live.play("one", ONE, FAILURES)
            left = meanwhile.left()
    finally:
        flink.rest.cancel(job, PATIENCE_S)
        topics.close()
    for what in ("opened", "settled"):
        usual, found = (sorted(getattr(delays, what).values()) for delays in (everywhere, alone))
        print(f"\n{what}, {parallelism} at work: all {usual[0]:.2f} to {usual[-1]:.2f} s, one {found[0]:.2f} to {found[-1]:.2f} s", end="")
        assert (statistics.median(found) - 1.5 * statistics.median(usual)) * left <= DRAIN_S, f"{left:.0%} of the machine left"
        assert (found[-1] - 1.5 * usual[-1]) * left <= DRAIN_S, f"{left:.0%} of the machine left"
