"""Budgets and bounds are settings, and nonsense is refused."""

import math

import msgspec
import pytest

from firstfault_server.core.thresholds import Thresholds, nanoseconds


def test_every_threshold_can_be_set_and_survives_a_round_trip() -> None:
    fields = msgspec.structs.fields(Thresholds)
    changed = msgspec.convert({field.name: 7 for field in fields}, Thresholds)
    assert {getattr(changed, field.name) for field in fields} == {7}
    assert msgspec.json.decode(msgspec.json.encode(changed), type=Thresholds) == changed


@pytest.mark.parametrize("value", [0, -1, 1e12, math.inf, "soon"])
def test_budgets_that_cannot_be_meant_are_refused(value: object) -> None:
    for name in ("silence_s", "settle_s", "retention_days", "nonfinite_values"):
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert({name: value}, Thresholds)


def test_defaults_are_those_of_the_design() -> None:
    limits = Thresholds()
    assert (limits.silence_s, limits.settle_s, limits.settle_waiters_s, limits.telemetry_page_s) == (15, 4, 15, 60)
    assert (limits.pause_factor, limits.pause_floor_s, limits.hang_confirm_s, limits.hang_confirm_blind_s) == (5, 10, 60, 600)
    assert (limits.lateness_s, limits.hole_grace_s, limits.nonfinite_values) == (30, 30, 5)


def test_seconds_become_whole_nanoseconds() -> None:
    assert nanoseconds(0.1) == 100_000_000
