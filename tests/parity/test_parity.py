"""One job in each of three ways through the same log, and what it said against what the embedded host says."""

from typing import Any

import msgspec
import pytest

from deploy.native.servers.flink import Flink
from firstfault_server.core.thresholds import Thresholds
from firstfault_server.detect.flink import plan
from tests.parity.later_version import NOTE
from tests.parity.outcomes import Outcome, changed, differences, embedded
from tests.parity.streams import AWAY, MANNERS, MARK, NAMES, STEADY, stream, tenant
from tests.parity.topics import Topics
from tests.property.scripts import T0, at

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]
PATIENCE_S = 120.0


class Story(msgspec.Struct, kw_only=True):
    """What the job said, and what it should have said."""

    way: str
    """By which it came about: `killed`, `upgraded` or `grown`."""
    found: Outcome
    wanted: Outcome
    repeated: int
    """Rollups that were written more than once."""
    changed: list[object]
    """Rollups, events and findings that were written again as something else."""


def finish(topics: Topics, way: str) -> Story:
    wanted = embedded(plan.stages(Thresholds()), topics.written())
    marked = wanted.incidents[MARK]

    def enough(found: Outcome) -> bool:
        # Another instance may still be behind the one that the mark came through.
        at_the_end = _steps(found) == _steps(wanted)
        return found.incidents.get(MARK) == marked and len(found.rollups) >= len(wanted.rollups) and at_the_end

    found = topics.read_until(enough, PATIENCE_S)
    assert found.incidents.get(MARK) == marked, "the job did not get to the end"
    rows = sum(type(record).__name__ == "Rollup" for record in topics.found)
    return Story(way=way, found=found, wanted=wanted, repeated=rows - len(found.rollups), changed=changed(topics.found))


def _steps(outcome: Outcome) -> set[int | None]:
    """Last steps of the job that goes on all the time."""
    return {run.step for run in outcome.runs.values() if run.tenant == STEADY}


def killed(kafka: str, flink: Flink) -> Story:
    """One instance, its state in RocksDB; the time away of ingest falls into its life, and its TaskManager is killed in the middle."""
    topics = Topics(kafka, 1)
    records = stream()
    try:
        job = flink.submit("--kafka-bootstrap", kafka, "--kafka-prefix", topics.prefix, "--flink-backend", "rocksdb")
        middle = next(i for i, record in enumerate(records) if record.received_ms > at(41.5) // 1_000_000)
        topics.write(records[:middle])
        topics.read_until(lambda found: len(found.rollups) > 500, PATIENCE_S)
        topics.write(records[middle : middle + 1000])
        flink.kill_taskmanagers_of(job)
        topics.write(records[middle + 1000 :])
        flink.start_taskmanager()
        story = finish(topics, "killed")
        flink.rest.cancel(job, PATIENCE_S)
        return story
    finally:
        topics.close()


def upgraded(kafka: str, flink: Flink) -> Story:
    """Two instances over two partitions, stopped with a savepoint; while they are away so is ingest; a later version goes on, alone."""
    topics = Topics(kafka, 2)
    records = stream()
    start_ms = at(AWAY[0]) // 1_000_000
    settings = ("--kafka-bootstrap", kafka, "--kafka-prefix", topics.prefix)
    try:
        job = flink.submit(*settings, "--flink-parallelism", "2")
        topics.write([record for record in records if record.received_ms <= start_ms])
        topics.read_until(lambda found: _reached(found, AWAY[0] - 3), PATIENCE_S)
        savepoint = flink.stop_job(job)
        topics.write([record for record in records if record.received_ms > start_ms])
        job = flink.submit(*settings, "--flink-stages", "tests.parity.later_version:stages", state=savepoint)
        story = finish(topics, "upgraded")
        flink.rest.cancel(job, PATIENCE_S)
        return story
    finally:
        topics.close()


def grown(kafka: str, flink: Flink) -> Story:
    """One instance that writes at least once, killed long after a checkpoint; stopped with a savepoint, two instances go on."""
    topics = Topics(kafka, 2)
    records = stream()
    start_ms = at(AWAY[0]) // 1_000_000
    settings = ("--kafka-bootstrap", kafka, "--kafka-prefix", topics.prefix, "--flink-guarantee", "at-least-once")
    try:
        job = flink.submit(*settings, "--flink-checkpoint-s", "10")
        middle = next(i for i, record in enumerate(records) if record.received_ms > at(41.5) // 1_000_000)
        topics.write(records[:middle])
        topics.read_until(lambda found: len(found.rollups) > 500, PATIENCE_S)
        kept = _checkpoints(flink, job)
        flink.rest.wait(lambda: _checkpoints(flink, job) > kept, PATIENCE_S, "no checkpoint came", job)
        known = len(topics.read_until(lambda _: False, 1.0).rollups)
        topics.write(records[middle : middle + 1000])
        topics.read_until(lambda found: len(found.rollups) > known, PATIENCE_S)
        flink.kill_taskmanagers_of(job)
        topics.write([record for record in records[middle + 1000 :] if record.received_ms <= start_ms])
        flink.start_taskmanager()
        topics.read_until(lambda found: _reached(found, AWAY[0] - 3), PATIENCE_S)
        savepoint = flink.stop_job(job)
        topics.write([record for record in records if record.received_ms > start_ms])
        job = flink.submit(*settings, "--flink-parallelism", "2", state=savepoint)
        story = finish(topics, "grown")
        flink.rest.cancel(job, PATIENCE_S)
        return story
    finally:
        topics.close()


def _checkpoints(flink: Flink, job: str) -> int:
    counts = (flink.rest.ask(f"/jobs/{job}/checkpoints") or {}).get("counts", {})
    return int(counts.get("completed", 0))


def _reached(found: Outcome, seconds: float) -> bool:
    return any(run.tenant == STEADY and run.updated_ns - T0 >= seconds * 1e9 for run in found.runs.values())


@pytest.fixture(scope="module", params=["killed", "upgraded", "grown"])
def story(request: pytest.FixtureRequest, kafka_address: str, flink: Flink) -> Story:
    """One way through the log."""
    ways: dict[str, Any] = {"killed": killed, "upgraded": upgraded, "grown": grown}
    told: Story = ways[request.param](kafka_address, flink)
    return told


def test_nothing_was_lost_or_said_twice(story: Story) -> None:
    # What was written after the checkpoint from which a job goes on is written again, and must be the same.
    assert story.repeated > 0 if story.way == "grown" else story.repeated == 0
    assert story.changed == []
    assert differences(story.found.rollups, story.wanted.rollups) == []
    assert differences(story.found.events, story.wanted.events) == []
    assert differences(story.found.findings, story.wanted.findings) == []


def test_what_cannot_be_read_is_buried_and_stops_nothing(story: Story) -> None:
    assert differences(story.found.letters, story.wanted.letters) == []
    assert len(story.wanted.letters) == 3


def test_incidents_are_the_same_however_their_records_arrived(story: Story) -> None:
    assert differences(story.found.incidents, story.wanted.incidents) == []
    for manner in MANNERS:
        for name in NAMES:
            assert story.found.incidents[tenant(name, manner)], (name, manner)


def test_nobody_is_silent_because_the_service_was_away(story: Story) -> None:
    assert STEADY not in story.found.incidents
    assert story.found.silent(STEADY) == story.wanted.silent(STEADY) == []


def test_a_later_version_reads_the_state_of_this_one(story: Story) -> None:
    noted = {run.tenant for run in story.found.runs.values() if any(note.startswith(NOTE) for note in run.notes)}
    assert _steps(story.found) == _steps(story.wanted)
    # The steady job lives on from the savepoint, the one of the mark began after it.
    assert noted & {STEADY, MARK} == ({STEADY, MARK} if story.way == "upgraded" else set())
