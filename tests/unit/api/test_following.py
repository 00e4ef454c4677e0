"""What open streams are told where another process detects: when the store has it, and of marks that another replica wrote."""

import asyncio
import time
from collections.abc import Iterator

import pytest

from firstfault_server import ports
from firstfault_server.adapters import memory
from firstfault_server.api import following
from firstfault_server.api.changes import Changes, Subscription
from firstfault_server.api.following import Following
from firstfault_server.core import model
from firstfault_server.wire import outputs
from firstfault_server.wire.incoming import TopicRecord
from tests.contract.records import NOW_NS, FixedClock, audit, incident


class Desk:
    """A follower that is driven by hand."""

    def __init__(self) -> None:
        self.clock = FixedClock()
        self.stores = memory.open_stores(self.clock)
        self.topic: list[TopicRecord] = []
        self.loop = asyncio.new_event_loop()
        self.changes = Changes()
        self.changes.bind(self.loop)
        self.following = Following(self._read, self.stores.incidents, self.stores.triage, self.changes, self.clock)

    def _read(self, _wait_s: float) -> list[TopicRecord]:
        found, self.topic = self.topic, []
        return found

    def write(self, *incidents: model.Incident) -> None:
        """What detection writes to the topic."""
        self.topic += [
            TopicRecord(topic=each.topic, key=each.key, value=each.value, written_ns=NOW_NS) for each in outputs.outgoing(incidents)
        ]

    def told(self, subscription: Subscription) -> list[str]:
        """What a stream would send after one step."""
        self.following.step(0.0)
        self.loop.run_until_complete(asyncio.sleep(0))
        return subscription.take()[0]


@pytest.fixture
def desk() -> Iterator[Desk]:
    """Fresh for each test."""
    made = Desk()
    yield made
    made.loop.close()


def test_an_incident_is_told_once_its_revision_is_stored(desk: Desk) -> None:
    stream, other = desk.changes.subscribe("acme"), desk.changes.subscribe("other")
    desk.write(incident(1, revision=2))
    assert desk.told(stream) == []
    desk.stores.incidents.write_incidents([incident(1, revision=1)])
    assert desk.told(stream) == []
    desk.stores.incidents.write_incidents([incident(1, revision=2)])
    assert desk.told(stream) == ["i-0001"]
    assert desk.told(stream) == []
    assert other.take() == ([], 0)


def test_patience_has_an_end(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = desk.changes.subscribe("acme")
    monkeypatch.setattr(following, "PATIENCE_S", -1.0)
    desk.write(incident(1))
    assert desk.told(stream) == ["i-0001"]


def test_nobody_listens_nobody_asks(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(*_: object) -> None:
        raise AssertionError("the store was asked")

    monkeypatch.setattr(type(desk.stores.incidents), "incident", ask)
    monkeypatch.setattr(type(desk.stores.triage), "audit", ask)
    desk.write(incident(1))
    desk.following.step(0.0)
    # Who comes later is told of what happens then.
    stream = desk.changes.subscribe("acme")
    monkeypatch.undo()
    assert desk.told(stream) == []


def test_marks_made_elsewhere_are_told_once(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "AUDIT_S", 0.0)
    stream = desk.changes.subscribe("acme")
    marks = model.Triage(tenant="acme", incident="i-0001", ack_by="ada")
    desk.stores.triage.put_triage(marks, audit(0, time_ns=desk.clock.now_ns()))
    assert desk.told(stream) == ["i-0001"]
    assert desk.told(stream) == []
    desk.clock.time_ns += 60 * model.SECOND_NS
    marks.version = 1
    desk.stores.triage.put_triage(marks, audit(1, time_ns=desk.clock.now_ns()))
    assert desk.told(stream) == ["i-0001"]
    assert len(desk.following._seen) == 1, "old entries are forgotten"


def test_a_record_that_cannot_be_read_costs_no_other(desk: Desk) -> None:
    stream = desk.changes.subscribe("acme")
    desk.stores.incidents.write_incidents([incident(1)])
    desk.topic.append(TopicRecord(topic=outputs.INCIDENTS, key=b"", value=b"\xff", written_ns=0))
    desk.write(incident(1))
    assert desk.told(stream) == ["i-0001"]


def test_an_outage_is_said_and_passes(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "RETRY_S", 0.0)
    answers: list[Exception | None] = [ports.StoreUnavailable("Kafka is away"), None]
    problems: list[str] = []

    def read(_wait_s: float) -> list[TopicRecord]:
        problems.append(follower.problem)
        answer = answers.pop(0) if answers else None
        if answer is not None:
            raise answer
        return []

    follower = Following(read, desk.stores.incidents, desk.stores.triage, desk.changes, desk.clock)
    follower.start()
    deadline = time.monotonic() + 30
    while len(problems) < 3 or follower.problem:
        assert time.monotonic() < deadline, problems
        time.sleep(0.001)
    follower.stop(30)
    assert problems[1] == "Kafka is away"
