"""Metric points to columns: `Series` per metric and set of point attributes.

How other kinds are reduced to one number a point: a sum gives its value (cumulative stays cumulative), a histogram, an
exponential histogram and a summary give the mean sum / count of what they cover. A point without a recorded value is left out.
"""

import struct
from collections.abc import Iterable, Sequence
from typing import Any, Final

from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric

from firstfault import conventions as names
from firstfault_server.core.model import Attribute, Series
from firstfault_server.wire.attributes import Budget, attributes, whole_number
from firstfault_server.wire.times import Window

STEP_KEYS: Final = (names.STEP, "step", "global_step", "iteration")
"""Point attributes that foreign senders put the step in."""
_NO_VALUE: Final = 1

# A point without attributes is 18 bytes: tag and time (field 3, fixed64), tag and value (field 4 double, or 6 sfixed64). Reading
# many of them from the bytes costs a tenth of reading them from message objects.
_DOUBLE: Final = "3xQxd"
_INTEGER: Final = "3xQxq"
_SIZE: Final = 20
_LAYOUTS: Final = {0x21: _DOUBLE, 0x31: _INTEGER}
"""Layout by the tag of the value, the byte 11 of a point: head (2 bytes), tag 0x19 and time, tag and value."""
_HEAD: Final = b"\x0a\x12\x19"
_ONE_DOUBLE: Final = struct.Struct("<" + _DOUBLE)
_ONE_INTEGER: Final = struct.Struct("<" + _INTEGER)
_FEW: Final = 64
"""Up to here all points are unpacked by one format, which `struct` keeps compiled."""

_SAME: Final = 1.0
_ALIASES: Final = {**names.METRIC_ALIASES_SCALED, **{alias: (name, _SAME) for alias, name in names.METRIC_ALIASES.items()}}


def series_of(metric: Metric) -> list[Series]:
    """Series of one metric, under its conventional name; times as sent, steps only where points carry them as an attribute."""
    sent = metric.name
    name, factor = _ALIASES.get(sent) or (sent, _SAME)
    kind = metric.WhichOneof("data")
    if kind in ("gauge", "sum"):
        holder = metric.gauge if kind == "gauge" else metric.sum
        columns = _columns(holder.SerializeToString()) if kind == "gauge" else None
        if columns is None:
            found = _numbers(name, holder.data_points)
        elif columns[0]:
            found = [Series(metric=name, times_ns=columns[0], values=columns[1])]
        else:
            found = []
    elif kind in ("histogram", "exponential_histogram", "summary"):
        found = _distributions(name, getattr(metric, kind).data_points)
    else:
        found = []
    if factor != _SAME:
        for series in found:
            series.values = [v * factor for v in series.values]
    return found


def join_steps(found: Sequence[Series]) -> None:
    """Give each series the steps that `train.step` of the same request says for equal timestamps."""
    columns = [series for series in found if series.metric == names.STEP]
    if not columns:
        return
    for series in columns:
        series.steps = _whole(series.values)
        if None in series.steps:
            _keep_whole(series)
    single = columns[0] if len(columns) == 1 else None
    steps: dict[int, int] | None = None
    for series in found:
        if series.steps is not None:
            continue
        if single is not None and series.times_ns == single.times_ns:
            series.steps, series.times_ns = single.steps, single.times_ns
            continue
        if steps is None:
            steps = _by_time(columns)
        own = [steps.get(t) for t in series.times_ns]
        if any(step is not None for step in own):
            series.steps = own


def _keep_whole(series: Series) -> None:
    """Leave out points of `train.step` that are no steps: not whole, negative, or beyond 2**53."""
    kept = [(t, v, step) for t, v, step in zip(series.times_ns, series.values, series.steps or (), strict=True) if step is not None]
    series.times_ns, series.values, series.steps = [k[0] for k in kept], [k[1] for k in kept], [k[2] for k in kept]


def _whole(values: list[float]) -> list[int | None]:
    """Steps as whole numbers; None for what is none."""
    try:
        found: list[int | None] = list(map(int, values))
    except (ValueError, OverflowError):
        return [whole_number(v) for v in values]
    if found == values and min(values) >= 0 and max(values) <= 1 << 53:
        return found
    return [whole_number(v) for v in values]


def _by_time(columns: Sequence[Series]) -> dict[int, int]:
    """Step by timestamp; the highest where several are given for one."""
    found: dict[int, int] = {}
    for series in columns:
        for time, step in zip(series.times_ns, series.steps or (), strict=True):
            if step is not None and step >= found.get(time, 0):
                found[time] = step
    return found


def clamp(found: Sequence[Series], window: Window) -> None:
    """Replace absurd times by the receive time, and count them."""
    believed: list[int] | None = None
    for series in found:
        times = series.times_ns
        if times is believed:
            continue
        if window.holds(min(times)) and window.holds(max(times)):
            believed = times
            continue
        series.times_ns = [t if window.holds(t) else window.received_ns for t in times]
        series.clamped = sum(not window.holds(t) for t in times)


def _columns(data: bytes) -> tuple[list[int], list[float]] | None:
    """Times and values of a gauge whose points are all of the 18-byte shape; None when they are not."""
    if not data:
        return [], []
    if len(data) == _SIZE and data[:3] == _HEAD:
        if data[11] == 0x21:
            time_ns, value = _ONE_DOUBLE.unpack(data)
            return [time_ns], [value]
        if data[11] == 0x31:
            time_ns, value = _ONE_INTEGER.unpack(data)
            return [time_ns], [float(value)]
        return None
    count, rest = divmod(len(data), _SIZE)
    if rest:
        return None
    layout = _LAYOUTS.get(data[11])
    if layout is None:
        return None
    tags = (data[::_SIZE], data[1::_SIZE], data[2::_SIZE], data[11::_SIZE])
    if tags != (b"\x0a" * count, b"\x12" * count, b"\x19" * count, data[11:12] * count):
        return None
    if count <= _FEW:
        flat = struct.unpack("<" + layout * count, data)
        times, values = list(flat[::2]), list(flat[1::2])
    else:
        pairs = zip(*struct.iter_unpack("<" + layout, data), strict=True)
        times, values = list(next(pairs)), list(next(pairs))
    return times, values if layout is _DOUBLE else [float(v) for v in values]


def _numbers(name: str, points: Iterable[Any]) -> list[Series]:
    groups: dict[Any, Series] = {}
    for point in points:
        value = point.as_double
        if not value:
            kind = point.WhichOneof("value")
            if kind is None or point.flags & _NO_VALUE:
                continue
            if kind == "as_int":
                value = float(point.as_int)
        _add(groups, name, point, value)
    return list(groups.values())


def _distributions(name: str, points: Iterable[Any]) -> list[Series]:
    groups: dict[Any, Series] = {}
    for point in points:
        if point.count and not point.flags & _NO_VALUE:
            _add(groups, name, point, point.sum / point.count)
    return list(groups.values())


def _add(groups: dict[Any, Series], name: str, point: Any, value: float) -> None:
    step: int | None = None
    found: dict[str, Attribute] = {}
    key: Any = None
    if point.attributes:
        found = attributes(point.attributes, Budget())
        for candidate in STEP_KEYS:
            if candidate in found:
                step = whole_number(found.pop(candidate))
                break
        key = tuple(sorted((k, repr(v)) for k, v in found.items())) or None
    series = groups.get(key)
    if series is None:
        series = groups[key] = Series(metric=name, attributes=found, times_ns=[], values=[])
    if step is not None and series.steps is None:
        series.steps = [None] * len(series.times_ns)
    if series.steps is not None:
        series.steps.append(step)
    series.times_ns.append(point.time_unix_nano)
    series.values.append(value)
