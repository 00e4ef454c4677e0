"""Incidents as their topic brings them, and marks that were recorded but not told: each is told once, and none keeps others quiet."""

from typing import Any

import pytest

from firstfault_server import ports
from firstfault_server.adapters import memory
from firstfault_server.alerter.incoming import IncidentPlanning
from firstfault_server.alerter.recorded import FIRST_NS, RecordedMarks
from firstfault_server.core import model
from firstfault_server.wire import outputs
from firstfault_server.wire.incoming import TopicRecord
from tests.contract.records import NOW_NS, SECOND_NS, FixedClock, audit
from tests.unit.alerter.stand import LOG, ScriptedSink, Stand, settled


class Desk(Stand):
    """A stand whose incidents come by a topic."""

    def __init__(self) -> None:
        clock = FixedClock()
        super().__init__(memory.open_stores(clock), ScriptedSink(), clock)
        self.planning = IncidentPlanning(self.planner, self._wake, self.metrics, LOG)
        self.marks = RecordedMarks(
            self.stores.triage, self.stores.incidents, self.stores.access, self.clock, self._marked, self.metrics, LOG
        )
        self.handed: list[str] = []
        key = ports.AccessKey(id="k", tenant="acme", name="k", secret_hash="h", scopes=["read"], created_ns=NOW_NS)
        self.stores.access.put_key(key)

    def _marked(self, incident: model.Incident, triage: model.Triage) -> None:
        self.handed.append(incident.id)
        self.planner.queue_marked(incident, triage)

    def errors(self) -> float:
        return sum(sample.value for family in self.metrics.errors.collect() for sample in family.samples if sample.name.endswith("_total"))

    def resolve(self, at_ns: int | None = None) -> None:
        """Somebody resolves the incident, and the process that wrote it dies before it queued a message."""
        stored = self.stores.triage.triage("acme", "i-0001")
        stored.resolved_by, stored.resolved_at_ns = "ada", self.clock.now_ns()
        time_ns = self.clock.now_ns() if at_ns is None else at_ns
        self.stores.triage.put_triage(stored, audit(1, action="resolve", time_ns=time_ns))


def records(*incidents: model.Incident) -> list[TopicRecord]:
    return [TopicRecord(topic=each.topic, key=each.key, value=each.value, written_ns=NOW_NS) for each in outputs.outgoing(incidents)]


@pytest.fixture
def desk() -> Desk:
    """Fresh for each test."""
    return Desk()


def test_a_batch_is_told_once_however_often_it_comes(desk: Desk) -> None:
    for _ in range(3):
        desk.planning.handle(records(settled(1), settled(2, rank=4)))
    assert [message.kind for message in desk.messages()] == ["opened", "corrected"]
    assert desk.woken == 1


def test_what_cannot_be_read_or_planned_keeps_nobody_quiet(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = desk.planner.queue

    def breaking(incidents: Any) -> bool:
        if incidents[0].id == "i-bad":
            raise KeyError("a bug")
        return queue(incidents)

    monkeypatch.setattr(desk.planner, "queue", breaking)
    garbage = TopicRecord(topic=outputs.INCIDENTS, key=b"acme/x", value=b"\xff", written_ns=NOW_NS)
    desk.planning.handle([garbage, *records(settled(1, id="i-bad"), settled(1))])
    assert [message.kind for message in desk.messages()] == ["opened"]
    assert desk.errors() == 2


def test_a_store_that_is_away_makes_the_batch_come_again(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(_messages: Any) -> None:
        raise ports.StoreUnavailable("away")

    monkeypatch.setattr(type(desk.stores.outbox), "add", lambda _self, messages: away(messages))
    with pytest.raises(ports.StoreUnavailable):
        desk.planning.handle(records(settled(1)))
    monkeypatch.undo()
    desk.planning.handle(records(settled(1)))
    assert [message.kind for message in desk.messages()] == ["opened"]


def test_a_mark_whose_message_was_lost_is_told(desk: Desk) -> None:
    desk.planning.handle(records(settled(1)))
    desk.stores.incidents.write_incidents([settled(1)])
    desk.resolve()
    for _ in range(2):
        desk.marks.look()
    assert [message.kind for message in desk.messages()] == ["opened", "resolved"]
    desk.clock.time_ns += 600 * SECOND_NS
    desk.marks.look()
    handed = len(desk.handed)
    desk.clock.time_ns += 600 * SECOND_NS
    desk.marks.look()
    assert len(desk.handed) == handed, "old entries are looked at no more"


def test_marks_of_long_ago_are_left_alone(desk: Desk) -> None:
    desk.stores.incidents.write_incidents([settled(1)])
    desk.resolve(at_ns=desk.clock.now_ns() - FIRST_NS - 1)
    desk.marks.look()
    assert desk.handed == []


def test_a_mark_on_an_incident_that_is_gone_is_no_error(desk: Desk) -> None:
    desk.resolve()
    desk.marks.look()
    assert desk.handed == []
