"""Periods of receipt, by which indices are named and dropped."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstfault_server.adapters.elasticsearch.periods import DAY_NS, Unit, bounds_of, period_of

UNITS = st.sampled_from(["day", "month"])


@given(unit=UNITS, time_ns=st.integers(0, 250_000 * DAY_NS))
def test_a_time_lies_in_its_period(unit: Unit, time_ns: int) -> None:
    first, following = bounds_of(unit, period_of(unit, time_ns))
    assert first <= time_ns < following
    assert (
        period_of(unit, first - 1) != period_of(unit, first) == period_of(unit, following - 1) != period_of(unit, following) or first == 0
    )


def test_months_have_their_lengths() -> None:
    days = [(following - first) // DAY_NS for first, following in (bounds_of("month", f"2028.{month:02}") for month in range(1, 13))]
    assert days == [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]


@given(unit=UNITS, time_ns=st.integers())
def test_times_that_no_calendar_has_go_to_the_nearest_period(unit: Unit, time_ns: int) -> None:
    assert "1970.01" <= period_of(unit, time_ns) <= "9999.12.31"


def test_there_is_one_index_for_ever() -> None:
    assert period_of("ever", 1) == ""


@pytest.mark.parametrize("period", ["", "2026", "2026.9", "2026.13", "2026.09.21", "latest"])
def test_what_is_no_month_is_refused(period: str) -> None:
    with pytest.raises(ValueError):
        bounds_of("month", period)
