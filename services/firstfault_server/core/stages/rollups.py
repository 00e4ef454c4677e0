"""Points of one request as deltas on 10 s windows: what is added depends on the request alone, never on what came before."""

import json
import math
from collections.abc import Iterable
from operator import mul

from firstfault_server.core import model
from firstfault_server.core.stages.columns import Spans

Columns = tuple[list[int], list[float], list[int | None]]
"""Times, values, steps."""


def rollups(batch: model.Batch, series: list[model.Series], window_ns: int, spans: Spans | None = None) -> list[model.Rollup]:
    """One delta per metric, attributes and window. Sums by `fsum`: exact, so their order does not show.

    First and last are the finite values with the lowest and highest time; of equal times the lower and the higher value.
    """
    cells: dict[tuple[str, str, int], list[Columns]] = {}
    spans = spans if spans is not None else Spans()
    for one in series:
        if not one.times_ns:
            continue
        attributes = json.dumps(one.attributes, sort_keys=True, separators=(",", ":")) if one.attributes else ""
        steps: list[int | None] = one.steps if one.steps is not None else [None] * len(one.values)
        low, high, _ = spans.of(one.times_ns)
        first = low - low % window_ns
        if high < first + window_ns:
            # Mostly all points of a request fall into one window.
            cells.setdefault((one.metric, attributes, first), []).append((one.times_ns, one.values, steps))
            continue
        for window, columns in _windows(one, steps, window_ns):
            cells.setdefault((one.metric, attributes, window), []).append(columns)
    return [
        _rollup(batch, metric, attributes, window, _joined(parts), spans) for (metric, attributes, window), parts in sorted(cells.items())
    ]


def _windows(series: model.Series, steps: list[int | None], window_ns: int) -> Iterable[tuple[int, Columns]]:
    """The series cut at window borders."""
    parts: dict[int, Columns] = {}
    for time_ns, value, step in zip(series.times_ns, series.values, steps, strict=True):
        times, values, its = parts.setdefault(time_ns - time_ns % window_ns, ([], [], []))
        times.append(time_ns)
        values.append(value)
        its.append(step)
    return parts.items()


def _joined(parts: list[Columns]) -> Columns:
    if len(parts) == 1:
        return parts[0]
    return (
        [t for times, _, _ in parts for t in times],
        [v for _, values, _ in parts for v in values],
        [s for *_, steps in parts for s in steps],
    )


def _rollup(batch: model.Batch, metric: str, attributes: str, window_ns: int, columns: Columns, spans: Spans) -> model.Rollup:
    who = batch.identity
    times, values, steps = columns
    count = len(values)
    if count == 1:
        return _single(batch, metric, attributes, window_ns, times[0], values[0], steps[0])
    total = _sum(values)
    # The sum is not finite as soon as one value is not; an overflow of it only costs the filter.
    if not math.isfinite(total):
        kept = [(t, v) for t, v in zip(times, values, strict=True) if math.isfinite(v)]
        times, values = [t for t, _ in kept], [v for _, v in kept]
        total = _sum(values)
    lowest, highest = spans.steps(steps)
    row = model.Rollup(
        tenant=who.tenant,
        run=who.run,
        process=who.process,
        rank=who.rank,
        node=who.node,
        metric=metric,
        attributes=attributes,
        window_ns=window_ns,
        position=batch.position,
        count=count,
        nonfinite=count - len(values),
        step_min=lowest,
        step_max=highest,
    )
    if values:
        low_ns, high_ns, rising = spans.of(times)
        if rising:
            row.first_ns, row.first, row.last_ns, row.last = low_ns, values[0], high_ns, values[-1]
        else:
            row.first_ns, row.first = min(zip(times, values, strict=True))
            row.last_ns, row.last = max(zip(times, values, strict=True))
        row.sum, row.sumsq = total, _sum(list(map(mul, values, values)))
        row.min, row.max = min(values), max(values)
    return row


def _single(batch: model.Batch, metric: str, attributes: str, window_ns: int, time_ns: int, value: float, step: int | None) -> model.Rollup:
    """The delta of one point: nothing to add up or to compare."""
    who = batch.identity
    row = model.Rollup(
        tenant=who.tenant,
        run=who.run,
        process=who.process,
        rank=who.rank,
        node=who.node,
        metric=metric,
        attributes=attributes,
        window_ns=window_ns,
        position=batch.position,
        count=1,
        step_min=step,
        step_max=step,
    )
    if math.isfinite(value):
        row.sum, row.sumsq = value, value * value
        row.min = row.max = row.first = row.last = value
        row.first_ns = row.last_ns = time_ns
    else:
        row.nonfinite = 1
    return row


def _sum(values: list[float]) -> float:
    """Exact sum; beyond the range of floats an infinity, as a plain sum would give."""
    try:
        return math.fsum(values)
    except (OverflowError, ValueError):
        return sum(values)
