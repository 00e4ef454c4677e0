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
        times = one.times_ns
        if not times:
            continue
        attributes = json.dumps(one.attributes, sort_keys=True, separators=(",", ":")) if one.attributes else ""
        steps: list[int | None] = one.steps if one.steps is not None else [None] * len(one.values)
        low, high, _ = spans.of(times)
        first = low - low % window_ns
        # Mostly all points of a request fall into one window.
        within: Iterable[tuple[int, Columns]] = [(first, (times, one.values, steps))]
        for window, columns in within if high < first + window_ns else _windows(one, steps, window_ns):
            key = (one.metric, attributes, window)
            cells.setdefault(key, []).append(columns)
    return [_rollup(batch, *key, _joined(parts), spans) for key, parts in cells.items()]


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
    step_min, step_max = spans.steps(steps)
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
        count=len(values),
        step_min=step_min,
        step_max=step_max,
    )
    total = _sum(values)
    # The sum is not finite as soon as one value is not; an overflow of it only costs the filter.
    if not math.isfinite(total):
        kept = [(t, v) for t, v in zip(times, values, strict=True) if math.isfinite(v)]
        row.nonfinite = len(values) - len(kept)
        times, values = [t for t, _ in kept], [v for _, v in kept]
        total = _sum(values)
    if len(values) == 1:
        # Nothing to add up or to compare.
        row.sum = row.min = row.max = row.first = row.last = total
        row.sumsq = total * total
        row.first_ns = row.last_ns = times[0]
    elif values:
        low_ns, high_ns, rising = spans.of(times)
        if rising:
            row.first_ns, row.first, row.last_ns, row.last = low_ns, values[0], high_ns, values[-1]
        else:
            row.first_ns, row.first = min(zip(times, values, strict=True))
            row.last_ns, row.last = max(zip(times, values, strict=True))
        row.sum, row.sumsq = total, _sum(list(map(mul, values, values)))
        row.min, row.max = min(values), max(values)
    return row


def _sum(values: list[float]) -> float:
    """Exact sum; beyond the range of floats an infinity, as a plain sum would give."""
    if len(values) == 1:
        return values[0]
    try:
        return math.fsum(values)
    except (OverflowError, ValueError):
        return sum(values)
