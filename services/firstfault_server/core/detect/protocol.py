"""What a streaming detector is: a pure function over the ordered points of one metric of one process."""

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec


class Points(msgspec.Struct, kw_only=True, frozen=True):
    """Points of one metric in event-time order; columns of equal length."""

    metric: str
    times_ns: Sequence[int]
    values: Sequence[float]
    """NaN and infinities are values."""
    steps: Sequence[int | None]


class Signal(msgspec.Struct, kw_only=True):
    """What a detector has to say; the worker stage makes a `Finding` of it."""

    symptom: str
    time_ns: int
    """Onset: event time of the first point concerned."""
    step: int | None = None
    score: float = 1.0
    text: str
    numbers: dict[str, float] = {}
    opens: bool = True
    ended: bool = False


class Detector(Protocol):
    """Streaming, bounded, deterministic: any split of the same points into calls gives the same signals."""

    name: str
    symptom: str
    metrics: frozenset[str]
    """Names of the metrics it wants."""

    def new(self) -> Any:
        """Fresh state: a msgspec struct listed in `detect/states.py`."""

    def update(self, state: Any, points: Points) -> list[Signal]:
        """Take points that follow the ones before."""
