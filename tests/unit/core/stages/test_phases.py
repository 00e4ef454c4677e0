"""Nested phases are read in event time, whatever order their records came in."""

from hypothesis import given
from hypothesis import strategies as st

from firstfault_server.core.stages.phases import Mark, Phases

NESTED = [
    Mark(1, 1, True, "train", 10),
    Mark(2, 2, True, "evaluation", 20, 60.0),
    Mark(3, 3, True, "data", 30),
    Mark(4, 4, False, "data", 40),
    Mark(5, 5, False, "evaluation", 50),
]


@given(st.permutations(NESTED), st.integers(1, 5))
def test_order_of_arrival_does_not_matter(order: list[Mark], upto: int) -> None:
    phases = Phases()
    for mark in (mark for mark in order if mark.time_ns <= upto):
        phases.add(mark)
        phases.add(mark)
    current = phases.current()
    assert current is not None
    assert current.name == ["train", "evaluation", "data", "evaluation", "train"][upto - 1]


def test_an_end_closes_what_an_exception_left_open_inside() -> None:
    phases = Phases()
    for mark in (*NESTED[:3], Mark(4, 4, False, "evaluation", 40)):
        phases.add(mark)
    current = phases.current()
    assert current is not None and current.name == "train"


def test_an_end_without_its_begin_changes_nothing() -> None:
    phases = Phases()
    phases.add(Mark(1, 1, False, "checkpoint", 1))
    assert phases.current() is None
    assert phases.moved_ns() == 1


def test_marks_are_bounded_and_old_ones_still_count() -> None:
    phases = Phases()
    phases.add(Mark(0, 0, True, "train", 1))
    for at in range(1, 1000):
        phases.add(Mark(at, at, at % 2 == 1, "checkpoint", at))
    assert len(phases.marks) <= 64 and len(phases.base) <= 64
    current = phases.current()
    assert current is not None and current.name == "checkpoint"
    phases.add(Mark(1000, 1000, False, "checkpoint", 1000))
    current = phases.current()
    assert current is not None and current.name == "train"
