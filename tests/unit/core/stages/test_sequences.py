"""Batch numbers: each counts once, whatever order and however late."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from firstfault_server.core.stages.sequences import Seen


@given(st.lists(st.integers(1, 60), max_size=200))
def test_a_number_is_new_exactly_once(numbers: list[int]) -> None:
    seen, known = Seen(), set()
    for number in numbers:
        assert seen.add(number) == (number not in known)
        known.add(number)
    spans = seen.intervals
    assert all(first <= last for first, last in spans)
    assert all(after[0] > before[1] + 1 for before, after in itertools.pairwise(spans))
    assert {number for first, last in spans for number in range(first, last + 1)} == known


def test_numbers_in_order_need_one_interval() -> None:
    seen = Seen()
    assert all(seen.add(number) for number in range(1, 5000))
    assert seen.intervals == [(1, 4999)]


def test_memory_is_bounded_and_forgets_towards_taking_data_twice() -> None:
    seen = Seen()
    for number in range(1, 4001, 2):
        assert seen.add(number)
    assert len(seen.intervals) == 256
    assert seen.add(1), "a forgotten number counts as new: data is never lost for it"
    assert not seen.add(3999)
