"""Which messages follow: one page at settling, corrections for what matters, the resolve; never one twice."""

import json

import pytest
from prometheus_client import CollectorRegistry

from firstfault_server import ports
from firstfault_server.adapters import memory
from firstfault_server.alerter.messages import MAX_MESSAGES
from firstfault_server.alerter.unmuting import EndOfMutes
from firstfault_server.core import model
from firstfault_server.telemetry import AlertMetrics
from tests.contract.records import NOW_NS, SECOND_NS, FixedClock, audit
from tests.unit.alerter.stand import LOG, ScriptedSink, Stand, provisional, settled


@pytest.fixture
def stand() -> Stand:
    clock = FixedClock(NOW_NS + 60 * SECOND_NS)
    return Stand(memory.open_stores(clock), ScriptedSink(), clock)


def _kinds(stand: Stand) -> list[str]:
    return [message.kind for message in stand.messages()]


def _mark(stand: Stand, **marks: object) -> model.Triage:
    stored = stand.stores.triage.triage("acme", "i-0001")
    for name, value in marks.items():
        setattr(stored, name, value)
    written = stand.stores.triage.put_triage(stored, audit(stored.version))
    stand.checkpoint.triage_changed(stand.stores.incidents.incident("acme", "i-0001"), written)
    return written


def test_the_page_goes_out_at_settling_and_once(stand: Stand) -> None:
    stand.commit(provisional(1))
    assert _kinds(stand) == []
    stand.commit(settled(2))
    stand.commit(settled(2))
    stand.commit(settled(3))
    assert _kinds(stand) == ["opened"]
    message = stand.messages()[0]
    assert message.number == 1
    assert message.id.startswith("i-0001.1")
    assert stand.woken == 1


def test_provisional_and_settled_in_one_commit_are_one_page(stand: Stand) -> None:
    stand.commit(provisional(1), settled(2), settled(3, title="Something else"))
    assert _kinds(stand) == ["opened", "corrected"]


@pytest.mark.parametrize(
    "change",
    [{"symptom": "hang"}, {"rank": 4}, {"rank": None}, {"scope": "all"}, {"severity": "error"}, {"title": "new"}, {"recurrences": 1}],
)
def test_what_matters_is_corrected_once(stand: Stand, change: dict[str, object]) -> None:
    stand.commit(settled(1))
    stand.commit(settled(2, **change))
    stand.commit(settled(3, **change))
    assert _kinds(stand) == ["opened", "corrected"]
    assert [message.number for message in stand.messages()] == [1, 2]


@pytest.mark.parametrize("change", [{"updated_at": NOW_NS + 1}, {"not_seen": ["x"]}, {"advice": [model.Advice(text="a", because="b")]}])
def test_what_does_not_matter_is_no_message(stand: Stand, change: dict[str, object]) -> None:
    stand.commit(settled(1))
    stand.commit(settled(2, **change))
    assert _kinds(stand) == ["opened"]


def test_a_correction_that_is_taken_back_is_two_corrections(stand: Stand) -> None:
    stand.commit(settled(1))
    stand.commit(settled(2, rank=5))
    stand.commit(settled(3))
    assert _kinds(stand) == ["opened", "corrected", "corrected"]


def test_a_verdict_that_keeps_changing_does_not_flood(stand: Stand) -> None:
    for revision in range(1, 2 * MAX_MESSAGES):
        stand.commit(settled(revision, rank=revision))
    assert len(stand.messages()) == MAX_MESSAGES
    stand.commit(settled(2 * MAX_MESSAGES, state="resolved", resolved_at=NOW_NS))
    assert _kinds(stand)[-1] == "resolved"


def test_the_end_is_told_once_and_a_recurrence_afterwards(stand: Stand) -> None:
    stand.commit(settled(1))
    for revision in (2, 3):
        stand.commit(settled(revision, state="resolved", resolved_at=NOW_NS))
    assert _kinds(stand) == ["opened", "resolved"]
    stand.commit(settled(4, recurrences=1))
    assert _kinds(stand) == ["opened", "resolved", "corrected"]
    assert json.loads(stand.messages()[-1].body)["state"] == "open"


def test_what_was_over_before_it_settled_pages_nobody(stand: Stand) -> None:
    stand.commit(settled(1, state="resolved", resolved_at=NOW_NS))
    assert _kinds(stand) == []


@pytest.mark.parametrize("incident", [settled(1, page=False), settled(1, run=model.RunRef(id="another"))])
def test_only_what_the_destination_asks_for_pages(incident: model.Incident) -> None:
    clock = FixedClock(NOW_NS)
    stand = Stand(memory.open_stores(clock), ScriptedSink(), clock, where="is:page run:r-1")
    stand.commit(incident)
    assert stand.messages() == []
    stand.commit(settled(2))
    assert _kinds(stand) == ["opened"]


def test_a_later_destination_is_not_paged_for_old_incidents(stand: Stand) -> None:
    late = ports.Destination(id="d-2", tenant="acme", name="late", url="https://example.com/", created_ns=NOW_NS + 60 * SECOND_NS)
    stand.stores.access.put_destination(late)
    stand.commit(settled(1))
    assert [message.destination for message in stand.messages()] == ["d-1"]


def test_a_later_destination_is_paged_when_it_happens_again(stand: Stand) -> None:
    stand.commit(settled(1))
    late = ports.Destination(id="d-2", tenant="acme", name="late", url="https://example.com/", created_ns=NOW_NS + 60 * SECOND_NS)
    stand.stores.access.put_destination(late)
    again = settled(2, recurrences=1)
    again.first_fault.time = NOW_NS + 90 * SECOND_NS
    stand.commit(again)
    assert [(message.destination, message.kind) for message in stand.messages()] == [
        ("d-1", "opened"),
        ("d-1", "corrected"),
        ("d-2", "opened"),
    ]


def test_what_a_mute_held_back_is_told_when_it_ends(stand: Stand) -> None:
    look = EndOfMutes(
        stand.stores.incidents,
        stand.stores.silences,
        stand.stores.access,
        stand.clock,
        stand.checkpoint.triage_changed,
        AlertMetrics(CollectorRegistry()),
        LOG,
    ).look
    stand.stores.access.put_key(ports.AccessKey(id="k", tenant="acme", name="", secret_hash="", scopes=[], created_ns=0))
    stand.commit(provisional(1))
    _mark(stand, muted_until_ns=stand.clock.time_ns + 100 * SECOND_NS)
    stand.commit(settled(2))
    look()
    assert _kinds(stand) == []
    stand.clock.time_ns += 101 * SECOND_NS
    for _ in range(2):
        look()
    assert _kinds(stand) == ["opened"]


def test_every_destination_counts_for_itself(stand: Stand) -> None:
    stand.stores.access.put_destination(ports.Destination(id="d-2", tenant="acme", name="second", url="https://example.com/"))
    stand.stores.access.put_destination(ports.Destination(id="d-3", tenant="other", name="foreign", url="https://example.com/"))
    stand.commit(settled(1))
    stand.commit(settled(2, rank=9))
    assert [(message.destination, message.number) for message in stand.messages()] == [("d-1", 1), ("d-1", 2), ("d-2", 1), ("d-2", 2)]


def test_a_muted_incident_pages_only_after_the_mute(stand: Stand) -> None:
    stand.commit(provisional(1))
    _mark(stand, muted_until_ns=NOW_NS + 3600 * SECOND_NS)
    stand.commit(settled(2))
    assert _kinds(stand) == []
    _mark(stand, muted_until_ns=None)
    assert _kinds(stand) == ["opened"]


def test_a_mute_silences_corrections_but_not_the_end(stand: Stand) -> None:
    stand.commit(settled(1))
    _mark(stand, muted_until_ns=NOW_NS + 3600 * SECOND_NS)
    stand.commit(settled(2, rank=9))
    assert _kinds(stand) == ["opened"]
    _mark(stand, resolved_by="ada", resolved_at_ns=NOW_NS + SECOND_NS)
    assert _kinds(stand) == ["opened", "resolved"]


def test_a_person_resolves_and_reopens(stand: Stand) -> None:
    stand.commit(settled(1))
    _mark(stand, ack_by="ada", ack_at_ns=NOW_NS)
    assert _kinds(stand) == ["opened"]
    _mark(stand, resolved_by="ada", resolved_at_ns=NOW_NS + SECOND_NS)
    _mark(stand, resolved_by=None, resolved_at_ns=None, reopened_at_ns=NOW_NS + 2 * SECOND_NS)
    assert _kinds(stand) == ["opened", "resolved", "corrected"]


def test_the_body_is_the_incident_of_the_contract(stand: Stand) -> None:
    stand.commit(settled(1))
    body = json.loads(stand.messages()[0].body)
    assert body["type"] == "incident.opened"
    assert body["id"] == "i-0001"
    assert body["url"] == "http://api.example/v1/incidents/i-0001"
    assert body["first_fault"]["rank"] == 3
