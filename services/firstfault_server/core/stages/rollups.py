"""Points of one request as deltas on 10 s windows: what is added depends on the request alone, never on what came before."""

import json
import math
from collections import defaultdict

from firstfault_server.core import model

Point = tuple[int, float, int | None]


def rollups(batch: model.Batch, series: list[model.Series], window_ns: int) -> list[model.Rollup]:
    """One delta per metric, attributes and window. Sums by `fsum`: exact, so their order does not show.

    First and last are the finite values with the lowest and highest time; of equal times the lower and the higher value.
    """
    cells: dict[tuple[str, str, int], list[Point]] = defaultdict(list)
    for one in series:
        attributes = json.dumps(one.attributes, sort_keys=True, separators=(",", ":")) if one.attributes else ""
        steps = one.steps if one.steps is not None else [None] * len(one.values)
        for time_ns, value, step in zip(one.times_ns, one.values, steps, strict=True):
            cells[(one.metric, attributes, time_ns - time_ns % window_ns)].append((time_ns, value, step))
    return [_rollup(batch, metric, attributes, window, points) for (metric, attributes, window), points in sorted(cells.items())]


def _rollup(batch: model.Batch, metric: str, attributes: str, window_ns: int, points: list[Point]) -> model.Rollup:
    who = batch.identity
    finite = [(time_ns, value) for time_ns, value, _ in points if math.isfinite(value)]
    values = [value for _, value in finite]
    steps = [step for _, _, step in points if step is not None]
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
        count=len(points),
        nonfinite=len(points) - len(values),
        step_min=min(steps) if steps else None,
        step_max=max(steps) if steps else None,
    )
    if values:
        first, last = min(finite), max(finite)
        row.sum, row.sumsq = _sum(values), _sum([value * value for value in values])
        row.min, row.max = min(values), max(values)
        row.first, row.first_ns, row.last, row.last_ns = first[1], first[0], last[1], last[0]
    return row


def _sum(values: list[float]) -> float:
    """Exact sum; beyond the range of floats an infinity, as a plain sum would give."""
    try:
        return math.fsum(values)
    except OverflowError:
        return math.inf if sum(value > 0 for value in values) * 2 >= len(values) else -math.inf
