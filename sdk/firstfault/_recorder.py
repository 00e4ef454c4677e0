"""The hot path: what `log` does in the training thread, and the bounded queues the exporter empties.

`log` takes the time, copies the dict, appends. It takes no lock (a fork would copy it locked), serialises nothing, calls no
code of the user's classes and never asks an accelerator for a value: that would make the training wait for the device.
"""

import math
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from firstfault._beacon import Beacon, Cell
from firstfault._capture import Captured, type_name
from firstfault._guard import LOSSES, Losses, from_signal_handler

STEPS_KEPT = 8192
"""Calls of `log` kept until they are exported: 5 MB for ten metrics each."""
ENTRIES_KEPT = 2048
"""Log records kept until they are exported."""

Sample = tuple[int, "int | None", dict[str, Any]]
"""Time in nanoseconds, step, name -> number."""
LogCall = Callable[[Mapping[str, Any], "int | None"], None]
_STEP, _PROGRESS = int(Cell.STEP), int(Cell.PROGRESS_NS)
_ACCELERATED = ("torch", "jax", "jaxlib", "tensorflow", "cupy", "mlx", "torch_xla")


@dataclass(frozen=True)
class Entry:
    """A log record to be."""

    time_ns: int
    event: str
    severity: int
    body: str = ""
    attributes: dict[str, Any] = field(default_factory=dict)
    exception: Captured | None = None
    """Formatted by the exporter."""
    trace_id: int = 0
    span_id: int = 0


class Recorder:
    """Queues between the training threads and the exporter. Full queues lose their oldest, counted."""

    def __init__(self, beacon: Beacon | None, losses: Losses = LOSSES) -> None:
        """`beacon` None: nobody watches."""
        self.samples: deque[Sample] = deque(maxlen=STEPS_KEPT)
        self.entries: deque[Entry] = deque(maxlen=ENTRIES_KEPT)
        self.last_step: int | None = None
        self.cells = beacon.cells if beacon is not None else memoryview(bytearray(8 * len(Cell))).cast("q")
        self._losses = losses
        self.log = self._make_log()

    def _make_log(self) -> LogCall:
        """The function behind `firstfault.log`; a closure, since every attribute looked up would cost more than the append."""
        samples, cells, limit, clock = self.samples, self.cells, STEPS_KEPT, time.time_ns

        def log(metrics: Mapping[str, Any], step: int | None) -> None:
            try:
                now = clock()
                if metrics.__class__ is not dict:
                    kept = self._detached(metrics)
                else:
                    for value in metrics.values():
                        if value.__class__ is not float:
                            kept = self._detached(metrics)
                            break
                    else:
                        kept = metrics.copy()
                if step.__class__ is not int:
                    step = self._step(step)
                if step is not None:
                    try:
                        cells[_STEP] = step
                        self.last_step = step
                    except ValueError:
                        self._losses.count("step_out_of_range")
                        step = None
                if len(samples) == limit:
                    self._losses.count("queue_full")
                samples.append((now, step, kept))
                cells[_PROGRESS] = now
            except Exception as error:
                if from_signal_handler(error):
                    raise
                self._losses.internal_error(error, "log")

        return log

    def _step(self, step: Any) -> int | None:
        if step is None:
            return None
        number = number_of(step)
        if isinstance(number, str):
            self._losses.count(f"step_{number}")
            return None
        return int(number) if math.isfinite(number) else None

    def _detached(self, metrics: Any) -> dict[str, Any]:
        """A copy that later changes of the caller's objects cannot reach; what is not a number is counted and left out."""
        if not isinstance(metrics, dict):
            self._losses.count("not_a_dict")
            return {}
        kept: dict[str, Any] = {}
        for name, value in dict.items(metrics):
            if value.__class__ is float:
                kept[name] = value
                continue
            number = number_of(value)
            if isinstance(number, str):
                self._losses.count(number)
            else:
                kept[name] = number
        return kept

    def add(self, entry: Entry) -> None:
        """Queue a log record."""
        if len(self.entries) == ENTRIES_KEPT:
            self._losses.count("queue_full")
        self.entries.append(entry)

    def progress(self, now_ns: int) -> None:
        """The user's code called us: it moves."""
        self.cells[_PROGRESS] = now_ns

    def clear(self) -> None:
        """Forget what is queued: in a forked child it is the parent's to send."""
        self.samples.clear()
        self.entries.clear()


def number_of(value: Any) -> float | int | str:
    """The number behind a value, or the reason why there is none.

    Numbers, NumPy scalars and CPU tensors of one element count. Exactly those classes: a subclass's conversion is code we do
    not know (of a distributed tensor it is a collective). An array on an accelerator is not asked: the answer would take a sync.
    """
    kind = type(value)
    if kind is float or kind is int:
        return value  # type: ignore[no-any-return]
    name = type_name(kind)
    root = name.partition(".")[0]
    if kind is bool or isinstance(value, (int, float)):
        return float.__float__(value) if isinstance(value, float) else int.__int__(value)
    if root == "numpy" and hasattr(kind, "dtype"):
        return value.item() if value.dtype.kind in "biuf" and value.size == 1 else "not_a_scalar"
    if name in ("torch.Tensor", "torch.nn.parameter.Parameter"):
        if value.device.type != "cpu":
            return "device_tensor"
        if value.numel() != 1 or value.is_complex():
            return "not_a_scalar"
        return value.item()  # type: ignore[no-any-return]
    return "device_tensor" if root in _ACCELERATED else "not_a_number"
