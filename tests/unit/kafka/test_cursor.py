"""Positions in a topic."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstfault_server.adapters.kafka import Cursor

PARTITIONS = st.integers(0, 300)
OFFSETS = st.integers(0, 2**63 - 1)


@given(st.lists(st.tuples(PARTITIONS, OFFSETS), min_size=1, max_size=30))
def test_text_gives_the_cursor_back(taken: list[tuple[int, int]]) -> None:
    cursor = Cursor()
    for partition, offset in taken:
        cursor = cursor.after(partition, offset)
    again = Cursor.parse(str(cursor))
    assert again == cursor
    for partition, offset in cursor.offsets.items():
        assert again.next_offset(partition) == offset + 1


@given(st.dictionaries(PARTITIONS, OFFSETS), st.dictionaries(PARTITIONS, OFFSETS), PARTITIONS, OFFSETS, OFFSETS)
def test_positions_of_a_partition_sort_like_its_records(
    one: dict[int, int], other: dict[int, int], partition: int, first: int, second: int
) -> None:
    positions = str(Cursor(one).after(partition, first)), str(Cursor(other).after(partition, second))
    if first < second:
        assert positions[0] < positions[1]


def test_the_start_of_the_log_has_read_nothing() -> None:
    assert Cursor.parse(None).next_offset(0) is None


@pytest.mark.parametrize("text", ["", "x", "0001", "0001-", "-0001", "0001-0z", "0001-02/", "0001-02/0001-03"])
def test_what_is_no_position_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a position"):
        Cursor.parse(text)
