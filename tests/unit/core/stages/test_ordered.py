"""Points reach detectors in the order they were sent, whatever order they arrived in."""

from hypothesis import given
from hypothesis import strategies as st

from firstfault_server.core.stages.ordered import Buffer, Held, Queue

SECOND = 1_000_000_000
LATE = 30 * SECOND


def held(number: int, received_s: float) -> Held:
    return Held(round(received_s * SECOND), [("m", [number], [float(number)], [number])], 1)


@given(st.permutations(range(1, 30)))
def test_batches_come_out_in_the_order_of_their_numbers(order: list[int]) -> None:
    queue, out = Queue(), []
    for at, number in enumerate(order):
        queue.put(number, held(number, at / 100))
        out += [run[1][0] for run in queue.ready(at * SECOND // 100, LATE, 10_000)]
    assert out == list(range(1, 30))


def test_a_missing_batch_is_waited_for_as_long_as_it_may_be_late() -> None:
    queue = Queue()
    queue.put(1, held(1, 0))
    queue.put(3, held(3, 1))
    assert [run[1] for run in queue.ready(2 * SECOND, LATE, 10_000)] == [[1]]
    assert queue.due(LATE) == 31 * SECOND
    assert queue.ready(30 * SECOND, LATE, 10_000) == []
    assert [run[1] for run in queue.ready(31 * SECOND, LATE, 10_000)] == [[3]]
    queue.put(2, held(2, 32))
    assert queue.ready(33 * SECOND, LATE, 10_000) == [], "too late for alarms"
    assert queue.due(LATE) is None


@given(st.permutations(range(1, 12)))
def test_a_gap_is_a_number_missing_below_one_that_is_here(order: list[int]) -> None:
    queue, here = Queue(), set()
    for number in order:
        queue.put(number, held(number, 0))
        here.add(number)
        assert queue.gap == (len(here) < max(here)), "before the release"
        queue.ready(0, LATE, 10_000)
        assert queue.gap == (len(here) < max(here)), "and after it"
    queue.put(14, held(14, 0))
    assert queue.gap
    queue.ready(LATE, LATE, 10_000)
    assert not queue.gap, "what is given up is not waited for"


def test_held_values_are_bounded() -> None:
    queue = Queue()
    for number in range(2, 200):
        queue.put(number, held(number, 0))
        queue.ready(0, LATE, 50)
    assert sum(one.size for one in queue.held.values()) <= 50


@given(st.permutations(range(20)), st.lists(st.integers(0, 19), max_size=20))
def test_foreign_points_come_out_by_time(order: list[int], cuts: list[int]) -> None:
    buffer, out = Buffer(), []
    for at, number in enumerate(order):
        buffer.put(("m", [number + 1], [float(number)], [number]), at * SECOND)
        if at in cuts:
            out += [run[1][0] for run in buffer.ready(at * SECOND, LATE, 10_000)]
    out += [run[1][0] for run in buffer.ready(60 * SECOND, LATE, 10_000)]
    assert out == list(range(1, 21))
    assert buffer.due(LATE) is None


def test_foreign_points_are_bounded() -> None:
    buffer = Buffer()
    for number in range(1, 500):
        buffer.put(("m", [number], [0.0], [None]), 0)
        buffer.ready(0, LATE, 100)
    assert len(buffer.points) <= 100
