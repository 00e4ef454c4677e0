"""One contract for every detector: bounded, deterministic, split-invariant, and at ease with values that are not finite."""

import itertools
import math
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firstfault_server.core.detect import detectors
from firstfault_server.core.detect.protocol import Detector, Points, Signal
from firstfault_server.core.stages.codec import StateCodec
from firstfault_server.core.stages.worker_state import WorkerState
from firstfault_server.core.thresholds import Thresholds

ALL = detectors(Thresholds())
VALUES = st.one_of(st.floats(-1e6, 1e6), st.sampled_from([math.nan, math.inf, -math.inf, 0.0, 1e308, -1e308]))
SECOND = 1_000_000_000


def run(detector: Detector, metric: str, values: list[float], cuts: list[int]) -> tuple[list[Signal], Any]:
    """Signals over the values, given in pieces."""
    state = detector.new()
    signals: list[Signal] = []
    edges = sorted({0, len(values), *[cut % (len(values) + 1) for cut in cuts]})
    for low, high in itertools.pairwise(edges):
        steps = list(range(low, high))
        points = Points(metric=metric, times_ns=[(1 + at) * SECOND for at in steps], values=values[low:high], steps=steps)
        signals += detector.update(state, points)
    return signals, state


@pytest.mark.parametrize("detector", ALL, ids=[one.name for one in ALL])
@settings(max_examples=60, deadline=None)
@given(values=st.lists(VALUES, max_size=200), cuts=st.lists(st.integers(0, 200), max_size=8))
def test_any_split_of_the_points_gives_the_same_signals(detector: Detector, values: list[float], cuts: list[int]) -> None:
    for metric in detector.metrics:
        whole, _ = run(detector, metric, values, [])
        pieces, _ = run(detector, metric, values, cuts)
        assert pieces == whole


@pytest.mark.parametrize("detector", ALL, ids=[one.name for one in ALL])
def test_state_survives_a_snapshot_and_stays_small(detector: Detector) -> None:
    values = [math.sin(at) if at % 7 else math.nan for at in range(5000)]
    for metric in detector.metrics:
        _, state = run(detector, metric, values, [])
        codec = StateCodec(WorkerState)
        data = codec.encode(WorkerState(detectors={"x": state}))
        assert codec.decode(data).detectors["x"] == state
        assert len(data) < 6000


@pytest.mark.parametrize("detector", ALL, ids=[one.name for one in ALL])
def test_ordinary_numbers_and_no_numbers_raise_nothing(detector: Detector) -> None:
    for metric in detector.metrics:
        assert run(detector, metric, [], [])[0] == []
        assert run(detector, metric, [2.0 + 0.01 * math.sin(at) for at in range(2000)], [3, 70])[0] == []


@pytest.mark.parametrize("detector", ALL, ids=[one.name for one in ALL])
def test_every_signal_explains_itself(detector: Detector) -> None:
    for metric in detector.metrics:
        for signal in run(detector, metric, [1.0] * 50 + [math.nan] * 50 + [1.0] * 200, [])[0]:
            assert signal.text and metric in signal.text
            assert 0.0 <= signal.score <= 1.0
            assert msgspec.json.decode(msgspec.json.encode(signal), type=Signal) == signal


def test_names_are_unique() -> None:
    assert len({one.name for one in ALL}) == len(ALL)
