"""NaN and infinity in loss and gradients: opens after a few logged values in a row and names where they began."""

import math

import msgspec

from firstfault.conventions import GRAD_NORM, LOSS
from firstfault_server.core.detect.protocol import Points, Signal
from firstfault_server.core.thresholds import Thresholds, nanoseconds


class NonfiniteState(msgspec.Struct, array_like=True, tag="nonfinite"):
    """One metric's current stretch of values that are not finite."""

    row: int = 0
    """Values in a row that are not finite."""
    start_ns: int = 0
    start_step: int | None = None
    said: bool = False
    """The stretch was reported and is not over."""
    finite_since_ns: int = 0
    """First finite value since the stretch, 0 while it lasts."""
    last_finite: float | None = None


class Nonfinite:
    """The L2 norm and the loss carry any NaN or infinity of their inputs, so testing them tests every element."""

    name = "nonfinite"
    symptom = "nonfinite"
    metrics = frozenset({LOSS, GRAD_NORM})

    def __init__(self, thresholds: Thresholds) -> None:
        self._row = thresholds.nonfinite_values
        self._hold_ns = nanoseconds(thresholds.nonfinite_hold_s)
        self._hold_s = thresholds.nonfinite_hold_s

    def new(self) -> NonfiniteState:
        """No value seen."""
        return NonfiniteState()

    def update(self, state: NonfiniteState, points: Points) -> list[Signal]:
        """Signals for stretches that reached the threshold, and for those that are over."""
        if state.row == 0 and not state.said and math.isfinite(sum(points.values)):
            if points.values:
                state.last_finite = points.values[-1]
            return []
        # The sum is not finite as soon as one value is not; an overflow of it only costs the walk below.
        signals: list[Signal] = []
        for time_ns, value, step in zip(points.times_ns, points.values, points.steps, strict=True):
            if math.isfinite(value):
                self._finite(state, points.metric, time_ns, value, step, signals)
            else:
                self._nonfinite(state, points.metric, time_ns, value, step, signals)
        return signals

    def _nonfinite(self, state: NonfiniteState, metric: str, time_ns: int, value: float, step: int | None, signals: list[Signal]) -> None:
        if state.row == 0 and not state.said:
            state.start_ns, state.start_step = time_ns, step
        state.row += 1
        state.finite_since_ns = 0
        if state.said or state.row < self._row:
            return
        state.said = True
        before = "" if state.last_finite is None else f", last finite value {state.last_finite:g}"
        at = "" if state.start_step is None else f" since step {state.start_step}"
        signals.append(
            Signal(
                symptom=self.symptom,
                time_ns=state.start_ns,
                step=state.start_step,
                text=f"{metric} is {_name(value)}{at}: {state.row} logged values in a row are not finite{before}",
                numbers={"row": float(state.row)} | ({} if state.last_finite is None else {"last_finite": state.last_finite}),
                # Loss alone opens: gradient norms overflow for a few steps whenever a loss scaler looks for its scale.
                opens=metric == LOSS,
            )
        )

    def _finite(self, state: NonfiniteState, metric: str, time_ns: int, value: float, step: int | None, signals: list[Signal]) -> None:
        state.row = 0
        state.last_finite = value
        if not state.said:
            return
        if not state.finite_since_ns:
            state.finite_since_ns = time_ns
        if time_ns - state.finite_since_ns < self._hold_ns:
            return
        signals.append(
            Signal(
                symptom=self.symptom,
                time_ns=state.start_ns,
                step=step,
                text=f"{metric} has been finite for {self._hold_s:g} s",
                opens=metric == LOSS,
                ended=True,
            )
        )
        state.said, state.finite_since_ns, state.start_ns, state.start_step = False, 0, 0, None


def _name(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "Inf" if value > 0 else "-Inf"
