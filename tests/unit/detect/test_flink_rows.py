"""The bytes between Flink's operators: what Java writes Python reads, and the other way round."""

import struct

from hypothesis import given
from hypothesis import strategies as st

from firstfault_server.detect.flink.rows import LogRow, clock_row, head_of, packed, packet, read_log_row, unpacked, write_log_row

ROWS = st.builds(lambda now_ns, rest: clock_row(now_ns) + rest, st.integers(0, 2**63 - 1), st.binary(max_size=300))


@given(st.lists(ROWS, min_size=1, max_size=20))
def test_rows_that_came_as_one_are_read_in_their_order(rows: list[bytes]) -> None:
    assert list(unpacked(packed(rows))) == rows


@given(st.integers(0, 2**63 - 1))
def test_a_row_alone_is_never_taken_for_several(now_ns: int) -> None:
    assert unpacked(clock_row(now_ns)) == (clock_row(now_ns),)
    assert head_of(clock_row(now_ns)).now_ns == now_ns


@given(st.lists(st.tuples(st.integers(0, 127), st.binary(max_size=40), st.binary(max_size=300)), max_size=8))
def test_a_packet_holds_each_part_behind_its_lengths(parts: list[tuple[int, bytes, bytes]]) -> None:
    """Read as `Packets.java` reads: a signed byte, two ints, key, value."""
    data, at, found = packet(parts), 0, []
    while at < len(data):
        target, key, value = struct.unpack_from(">bii", data, at)
        at += 9
        found.append((target, data[at : at + key], data[at + key : at + key + value]))
        at += key + value
    assert found == parts


@given(st.integers(0, 11), st.integers(0, 2**63 - 1), st.binary(max_size=40), st.binary(max_size=40), st.binary(max_size=300))
def test_a_log_row_is_what_was_read(partition: int, offset: int, signal: bytes, tenant: bytes, body: bytes) -> None:
    row = LogRow(partition, offset, 1_700_000_000_000, signal, tenant, body)
    assert read_log_row(write_log_row(row)) == row
