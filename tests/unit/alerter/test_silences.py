"""What a silence keeps quiet: no page and no correction while it holds, the end all the same, and what is still open afterwards."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from firstfault_server import ports
from firstfault_server.adapters import memory, sqlite
from firstfault_server.alerter.unmuting import OVERLAP_NS, EndOfMutes
from firstfault_server.core import model
from firstfault_server.telemetry import AlertMetrics
from tests.contract.records import NOW_NS, SECOND_NS, FixedClock, audit
from tests.unit.alerter.stand import LOG, ScriptedSink, Stand, settled

MINUTE_NS = 60 * SECOND_NS


@pytest.fixture(params=["sqlite", "memory"])
def stand(request: pytest.FixtureRequest, tmp_path: Path) -> Stand:
    clock = FixedClock(NOW_NS + MINUTE_NS)
    opened = memory.open_stores(clock) if request.param == "memory" else sqlite.open_stores(tmp_path / "firstfault.sqlite", clock)
    request.addfinalizer(opened.close)
    opened.access.put_key(ports.AccessKey(id="k", tenant="acme", name="", secret_hash="", scopes=[], created_ns=0))
    return Stand(opened, ScriptedSink(), clock)


@pytest.fixture
def look(stand: Stand) -> Callable[[], None]:
    ends = EndOfMutes(
        stand.stores.incidents, stand.stores.silences, stand.stores.access, stand.clock, stand.checkpoint.triage_changed,
        AlertMetrics(CollectorRegistry()), LOG,
    )  # fmt: skip
    return ends.look


def _silence(stand: Stand, where: str = "run:r-1", **changes: Any) -> model.Silence:
    now_ns = stand.clock.time_ns
    fields: dict[str, Any] = {
        "id": "s-1", "tenant": "acme", "where": where, "starts_ns": now_ns, "ends_ns": now_ns + 100 * MINUTE_NS, "author": "ada",
        "comment": "known", "created_ns": now_ns,
    }  # fmt: skip
    made = model.Silence(**fields | changes)
    return stand.stores.silences.put_silence(made, audit(1, id=f"{made.id}-{made.version}"))


def _kinds(stand: Stand) -> list[str]:
    return [message.kind for message in stand.messages()]


def test_a_matching_incident_pages_nobody_and_others_do(stand: Stand) -> None:
    _silence(stand)
    stand.commit(settled(1), settled(1, id="i-0002", run=model.RunRef(id="r-2")))
    assert _kinds(stand) == []
    assert [message.kind for message in stand.stores.outbox.messages("acme", "i-0002")] == ["opened"]


@pytest.mark.parametrize(
    "changes", [{"tenant": "other"}, {"ends_ns": NOW_NS + MINUTE_NS}, {"starts_ns": NOW_NS + 2 * MINUTE_NS}, {"where": "rank:99"}]
)
def test_one_of_others_or_of_another_time_keeps_nothing_quiet(stand: Stand, changes: dict[str, Any]) -> None:
    _silence(stand, **changes)
    stand.commit(settled(1))
    assert _kinds(stand) == ["opened"]


def test_corrections_wait_and_the_end_is_told(stand: Stand) -> None:
    stand.commit(settled(1))
    _silence(stand)
    stand.commit(settled(2, rank=9))
    assert _kinds(stand) == ["opened"]
    stand.commit(settled(3, rank=9, state="resolved", resolved_at=NOW_NS))
    assert _kinds(stand) == ["opened", "resolved"]


def test_what_is_still_open_when_it_ends_is_told_once(stand: Stand, look: Callable[[], None]) -> None:
    _silence(stand)
    stand.commit(settled(1), settled(1, id="i-0002", state="resolved", resolved_at=NOW_NS))
    look()
    assert _kinds(stand) == []
    stand.clock.time_ns += 100 * MINUTE_NS
    for _ in range(3):
        look()
        stand.clock.time_ns += SECOND_NS
    assert _kinds(stand) == ["opened"]
    assert stand.stores.outbox.messages("acme", "i-0002") == []


def test_a_correction_held_back_is_told_when_it_ends(stand: Stand, look: Callable[[], None]) -> None:
    stand.commit(settled(1))
    _silence(stand)
    stand.commit(settled(2, rank=9))
    stand.clock.time_ns += 100 * MINUTE_NS
    look()
    assert _kinds(stand) == ["opened", "corrected"]


def test_another_silence_or_a_mute_goes_on(stand: Stand, look: Callable[[], None]) -> None:
    _silence(stand)
    _silence(stand, "is:page", id="s-2", ends_ns=stand.clock.time_ns + 200 * MINUTE_NS)
    stand.commit(settled(1))
    stand.clock.time_ns += 100 * MINUTE_NS
    look()
    assert _kinds(stand) == []
    stand.clock.time_ns += 100 * MINUTE_NS
    look()
    assert _kinds(stand) == ["opened"]


def test_one_ended_early_is_noticed_even_when_it_is_written_during_a_look(stand: Stand, look: Callable[[], None]) -> None:
    made = _silence(stand)
    stand.commit(settled(1))
    look()
    made.ends_ns = stand.clock.time_ns - OVERLAP_NS // 2
    stand.stores.silences.put_silence(made, audit(2))
    stand.clock.time_ns += SECOND_NS
    look()
    assert _kinds(stand) == ["opened"]


def test_one_whose_search_does_not_parse_keeps_nothing_quiet(stand: Stand, look: Callable[[], None]) -> None:
    _silence(stand, "colour:red")
    look()
    stand.commit(settled(1))
    assert _kinds(stand) == ["opened"]


def test_marks_do_not_page_what_is_silenced(stand: Stand) -> None:
    _silence(stand)
    stand.commit(settled(1))
    stored = stand.stores.triage.triage("acme", "i-0001")
    stored.ack_by = "ada"
    stand.checkpoint.triage_changed(settled(1), stand.stores.triage.put_triage(stored, audit(3)))
    assert _kinds(stand) == []
