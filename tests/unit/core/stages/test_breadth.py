"""How many different series a process may have stored, and what is never dropped."""

import random

from hypothesis import given
from hypothesis import strategies as st

from firstfault import conventions as names
from firstfault_server.core import model
from firstfault_server.core.stages.breadth import Breadth
from firstfault_server.core.stages.worker import Worker
from firstfault_server.core.thresholds import Thresholds
from firstfault_server.tables import load_tables
from tests.property.scripts import at


def series(metric: str, when: float = 1, **attributes: str) -> model.Series:
    return model.Series(metric=metric, attributes=dict(attributes), times_ns=[at(when), at(when) + 1], values=[1.0, 2.0])


def test_the_first_series_are_stored_and_stay() -> None:
    known: set[int] = set()
    first = [series(f"a{number}") for number in range(3)]
    assert Breadth(4).stored(known, first) == (first, 0)
    more = [series("z"), series("a1"), series("b")]
    assert Breadth(4).stored(known, more) == ([more[1], more[2]], 2)
    assert Breadth(4).stored(known, [series("b"), series("z"), series("y")]) == ([series("b")], 4)
    assert len(known) == 4


def test_attributes_make_series_of_their_own() -> None:
    known: set[int] = set()
    kept, points = Breadth(3).stored(known, [series(names.LOSS, layer=str(number)) for number in range(5)])
    assert (len(kept), points) == (3, 4)
    assert Breadth(3).stored(known, [series(names.LOSS)]) == ([series(names.LOSS)], 0)


@given(order=st.permutations(range(12)), most=st.integers(1, 20))
def test_within_one_request_the_order_does_not_matter(order: list[int], most: int) -> None:
    kept, points = Breadth(most).stored(set(), [series(f"m{number:02}") for number in order])
    assert {one.metric for one in kept} == {f"m{number:02}" for number in range(min(most, 12))}
    assert points == 2 * max(0, 12 - most)


def _played(seed: int, numbered: bool) -> tuple[object, ...]:
    """Batches with ever new names among the usual ones, in some order."""
    stage = Worker(Thresholds(series_per_process=5), load_tables().text_reader())
    state = stage.new("t/p/r")
    order = list(range(20))
    random.Random(seed).shuffle(order)
    out: list[model.AnyRecord] = []
    for place, number in enumerate(order):
        batch = model.Batch(
            identity=model.Identity(tenant="t", process="p", run="r", rank=0),
            received_ns=at(20 + place / 100),
            position=f"{place:04}",
            sender="sdk" if numbered else "",
            sequence=number + 1 if numbered else None,
            series=[
                series(f"step_{number}/loss", number),
                series("accuracy", number),
                model.Series(metric=names.LOSS, times_ns=[at(number)], values=[float("nan")], steps=[number]),
            ],
        )
        out += stage.on_batch(state, [batch], batch.received_ns)
        state = stage.decode(stage.encode(state))
    out += stage.on_tick(state, at(120))
    rows = [one for one in out if isinstance(one, model.Rollup)]
    dropped = [one for one in out if isinstance(one, model.Dropped)]
    assert sum(row.count for row in rows) + sum(one.points for one in dropped) == 20 * 5
    assert [one.first for one in dropped] == [True] + [False] * 15
    findings = {(one.id, one.step) for one in out if isinstance(one, model.Finding)}
    return (
        findings,
        len({row.metric for row in rows}),
        sum(row.count for row in rows if row.metric in (names.LOSS, "accuracy")),
        sum(one.points for one in dropped),
        {(one.run, one.process, one.reason) for one in dropped},
    )


@given(seed=st.integers(0, 1000), numbered=st.booleans())
def test_what_detection_says_and_how_much_is_stored_do_not_depend_on_the_order(seed: int, numbered: bool) -> None:
    expected = _played(0, numbered)
    assert expected[0]
    assert _played(seed, numbered) == expected
