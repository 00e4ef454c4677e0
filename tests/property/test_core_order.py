"""The same records give the same incidents: in any order of arrival, delivered twice, with state restored at any point."""

import os
from functools import cache

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from firstfault import conventions as names
from firstfault_server.core import model
from firstfault_server.tables import Tables, load_tables
from tests.property.cases import CASES, Case
from tests.property.scripts import Arrival, Driver, same

CASE_COUNT = int(os.environ.get("FIRSTFAULT_CASES", "25"))


@cache
def tables() -> Tables:
    return load_tables()


@cache
def in_order(name: str) -> list[tuple[object, ...]]:
    case = next(case for case in CASES if case.name == name)
    return _incidents(case, Arrival())


def _incidents(case: Case, arrival: Arrival) -> list[tuple[object, ...]]:
    outcome = Driver(tables=tables()).play([case.build()], case.until, arrival)
    assert outcome.failures == {}
    for incident in outcome.incidents():
        assert outcome.pages(incident) == int(incident.page), "the page flag goes up once and stays"
    return [(*same(one), one.page) for one in outcome.incidents()]


# A job that ended on its own says all there is to say; where silence or a stall is the evidence, an outage hides it.
ENDED = [case for case in CASES if case.run_state not in ("running", "unreachable") and "hang" not in case.name]


@st.composite
def arrivals(draw: st.DrawFn) -> Arrival:
    return Arrival(
        jitter_s=draw(st.sampled_from([0.0, 0.5, 1.5, 3.0])),
        repeats=draw(st.sampled_from([0.0, 0.2, 1.0])),
        seed=draw(st.integers(0, 10**6)),
        snapshots=sorted(draw(st.lists(st.floats(0.5, 90.0), max_size=4))),
    )


@pytest.mark.timeout(60 + 5 * CASE_COUNT)
@settings(max_examples=CASE_COUNT, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(case=st.sampled_from(CASES), arrival=arrivals())
def test_any_arrival_gives_the_same_incidents(case: Case, arrival: Arrival) -> None:
    assert _incidents(case, arrival) == in_order(case.name)


LATE = {
    "requests to stop": (names.EXIT, "sdk"),
    "ends": (names.EXIT, "sidecar"),
    "exceptions": (names.EXCEPTION, "sdk"),
    "memory kills": (names.OOM_KILL, "agent"),
    "device errors": (names.XID, "agent"),
}


def _sends(batch: model.Batch, kind: tuple[str, str]) -> bool:
    return any((record.event_name, batch.sender) == kind for record in batch.logs)


@pytest.mark.parametrize(
    ("case", "late"),
    [
        pytest.param(case, kind, id=f"{case.name}: {late} late")
        for case in ENDED
        for late, kind in LATE.items()
        if any(_sends(batch, kind) for _, batch in case.build().sent)
    ],
)
def test_one_kind_of_record_may_come_after_all_others(case: Case, late: tuple[str, str]) -> None:
    """As long as the others are not later than the time to settle; found as a page about a job that was only asked to stop."""
    script = case.build()
    script.sent = [(when + 2.9 if _sends(batch, late) else when, batch) for when, batch in script.sent]
    delayed = msgspec.structs.replace(case, build=lambda: script)
    assert _incidents(delayed, Arrival()) == in_order(case.name)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@settings(max_examples=2000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(case=st.sampled_from(CASES), arrival=arrivals())
def test_any_arrival_gives_the_same_incidents_at_length(case: Case, arrival: Arrival) -> None:
    assert _incidents(case, arrival) == in_order(case.name)


@pytest.mark.timeout(60 + 5 * CASE_COUNT)
@settings(max_examples=CASE_COUNT, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    case=st.sampled_from(ENDED),
    start=st.floats(0.5, 60.0),
    length=st.sampled_from([6.0, 20.0, 60.0, 300.0]),
    repeats=st.sampled_from([0.0, 1.0]),
)
def test_an_outage_of_the_service_changes_nothing(case: Case, start: float, length: float, repeats: float) -> None:
    arrival = Arrival(outage=(start, length), repeats=repeats)
    outcome = Driver(tables=tables()).play([case.build()], max(case.until, start + length) + 12, arrival)
    assert outcome.failures == {}
    assert [(*same(one), one.page) for one in outcome.incidents()] == in_order(case.name)
