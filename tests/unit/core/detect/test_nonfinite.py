"""Non-finite values open after five in a row, name their start, and close after a minute of finite ones."""

import math

from firstfault.conventions import GRAD_NORM, LOSS
from firstfault_server.core.detect.nonfinite import Nonfinite
from firstfault_server.core.detect.protocol import Points, Signal
from firstfault_server.core.thresholds import Thresholds

SECOND = 1_000_000_000


def signals(metric: str, values: list[float]) -> list[Signal]:
    detector = Nonfinite(Thresholds())
    times = [(100 + at) * SECOND for at in range(len(values))]
    return detector.update(detector.new(), Points(metric=metric, times_ns=times, values=values, steps=list(range(len(values)))))


def test_five_in_a_row_open_and_name_the_first_step() -> None:
    (signal,) = signals(LOSS, [2.0, 1.5, *[math.nan] * 9])
    assert (signal.step, signal.opens, signal.ended) == (2, True, False)
    assert signal.time_ns == 102 * SECOND
    assert "since step 2" in signal.text and "1.5" in signal.text


def test_four_in_a_row_are_an_overflow_like_any_other() -> None:
    assert signals(LOSS, [2.0, *[math.inf] * 4, 2.0, *[math.nan] * 4, 2.0]) == []


def test_gradients_alone_are_evidence_and_open_nothing() -> None:
    (signal,) = signals(GRAD_NORM, [1.0, *[math.inf] * 6])
    assert not signal.opens


def test_a_minute_of_finite_values_ends_it_and_a_short_relapse_prolongs_it() -> None:
    bad = [math.nan] * 5
    assert [one.ended for one in signals(LOSS, [*bad, *[1.0] * 62])] == [False, True]
    assert [one.ended for one in signals(LOSS, [*bad, *[1.0] * 40, math.nan, *[1.0] * 40])] == [False]


def test_two_stretches_are_two_signals() -> None:
    stretch = [*[math.nan] * 5, *[1.0] * 62]
    assert [one.step for one in signals(LOSS, [1.0, *stretch, *stretch]) if not one.ended] == [1, 68]
