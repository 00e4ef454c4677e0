"""Rollups are deltas: any way of cutting points into requests sums to the same."""

import math

from hypothesis import given
from hypothesis import strategies as st

from firstfault_server.core import model
from firstfault_server.core.stages.rollups import rollups

WINDOW = 10_000_000_000
VALUE = st.one_of(st.floats(-1e12, 1e12), st.sampled_from([math.nan, math.inf, -math.inf]))


def batch(position: str, points: list[tuple[int, float]]) -> model.Batch:
    series = [model.Series(metric="m", times_ns=[t for t, _ in points], values=[v for _, v in points], steps=[t for t, _ in points])]
    who = model.Identity(tenant="t", process="p", run="r", rank=3, node="n")
    return model.Batch(identity=who, received_ns=1, position=position, series=series)


def total(rows: list[model.Rollup]) -> dict[int, tuple[object, ...]]:
    out: dict[int, tuple[object, ...]] = {}
    for window in {row.window_ns for row in rows}:
        mine = [row for row in rows if row.window_ns == window]
        firsts = [(row.first_ns, row.first) for row in mine if row.first is not None]
        lasts = [(row.last_ns, row.last) for row in mine if row.last is not None]
        out[window] = (
            sum(row.count for row in mine),
            sum(row.nonfinite for row in mine),
            round(math.fsum(row.sum for row in mine), 3),
            min((row.min for row in mine if row.min is not None), default=None),
            max((row.max for row in mine if row.max is not None), default=None),
            min(firsts, default=None),
            max(lasts, default=None),
            min(row.step_min for row in mine if row.step_min is not None),
            max(row.step_max for row in mine if row.step_max is not None),
        )
    return out


@given(st.lists(st.tuples(st.integers(0, 4 * WINDOW), VALUE), max_size=40), st.integers(0, 40))
def test_deltas_of_any_cut_sum_to_the_same(points: list[tuple[int, float]], cut: int) -> None:
    whole = batch("1", points)
    left, right = batch("2", points[:cut]), batch("3", points[cut:])
    assert total(rollups(whole, whole.series, WINDOW)) == total(rollups(left, left.series, WINDOW) + rollups(right, right.series, WINDOW))


def test_one_row_per_metric_attributes_and_window() -> None:
    who = model.Identity(tenant="t", process="p", run="r")
    series = [
        model.Series(metric="m", times_ns=[1, WINDOW], values=[1.0, 2.0]),
        model.Series(metric="m", times_ns=[2], values=[3.0]),
        model.Series(metric="m", attributes={"b": 1, "a": "x"}, times_ns=[3], values=[4.0]),
    ]
    rows = rollups(model.Batch(identity=who, received_ns=1, position="7", series=series), series, WINDOW)
    assert [(row.attributes, row.window_ns, row.count, row.sum) for row in rows] == [
        ("", 0, 2, 4.0),
        ("", WINDOW, 1, 2.0),
        ('{"a":"x","b":1}', 0, 1, 4.0),
    ]
    assert len({(row.metric, row.attributes, row.window_ns, row.position) for row in rows}) == len(rows)


def test_values_beyond_floats_stay_a_number() -> None:
    whole = batch("1", [(1, 1.7e308), (2, 1.7e308)])
    (row,) = rollups(whole, whole.series, WINDOW)
    assert row.sum == math.inf and row.count == 2 and row.nonfinite == 0
