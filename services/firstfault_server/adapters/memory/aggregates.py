"""AggregateStore in memory."""

import math
import threading
from collections.abc import Iterable, Sequence
from typing import Any

from firstfault_server.core import model
from firstfault_server.core.buckets import bucket_width
from firstfault_server.ports import SeriesPoint, SeriesQuery

Key = tuple[str, str, str, str, str, int, str]


class MemoryAggregateStore:
    """Deltas by their key, summed on read."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._deltas: dict[Key, model.Rollup] = {}

    def write_rollups(self, rollups: Sequence[model.Rollup]) -> None:
        """Insert deltas; the same delta twice counts once."""
        with self._lock:
            for rollup in rollups:
                key = (rollup.tenant, rollup.run, rollup.process, rollup.metric, rollup.attributes, rollup.window_ns, rollup.position)
                self._deltas[key] = rollup

    def series(self, query: SeriesQuery) -> dict[tuple[int | None, str], list[SeriesPoint]]:
        """Buckets by (rank, process); empty buckets are left out."""
        chosen = [
            rollup
            for rollup in self._of(query.tenant, query.run, query.metric)
            if (query.rank is None or rollup.rank == query.rank)
            and (query.since_ns is None or rollup.window_ns >= query.since_ns)
            and (query.until_ns is None or rollup.window_ns < query.until_ns)
        ]
        if not chosen:
            return {}
        windows = [rollup.window_ns for rollup in chosen]
        width = bucket_width(
            min(windows) if query.since_ns is None else query.since_ns,
            max(windows) + 1 if query.until_ns is None else query.until_ns,
            query.points,
        )
        groups: dict[tuple[int | None, str], dict[int, list[model.Rollup]]] = {}
        for rollup in chosen:
            bucket = rollup.window_ns // width * width
            groups.setdefault((rollup.rank, rollup.process), {}).setdefault(bucket, []).append(rollup)
        return {key: [_point(time_ns, deltas) for time_ns, deltas in sorted(buckets.items())] for key, buckets in groups.items()}

    def metrics(self, tenant: str, run: str) -> list[str]:
        """Names of the metrics a run has sent."""
        with self._lock:
            return sorted({rollup.metric for rollup in self._deltas.values() if (rollup.tenant, rollup.run) == (tenant, run)})

    def ranks(self, tenant: str, run: str, metric: str) -> list[dict[str, Any]]:
        """Per rank: rank, process, count, mean, last, nonfinite, last_ns."""
        groups: dict[tuple[int | None, str], list[model.Rollup]] = {}
        for rollup in self._of(tenant, run, metric):
            groups.setdefault((rollup.rank, rollup.process), []).append(rollup)
        answer = []
        for (rank, process), deltas in sorted(groups.items(), key=lambda item: (item[0][0] is None, item[0][0] or 0, item[0][1])):
            point = _point(0, deltas)
            answer.append(
                {
                    "rank": rank,
                    "process": process,
                    "count": point.count,
                    "mean": point.mean,
                    "last": point.last,
                    "nonfinite": point.nonfinite,
                    "last_ns": max(delta.last_ns for delta in deltas),
                }
            )
        return answer

    def prune(self, before_ns: int) -> None:
        """Drop windows that are older."""
        with self._lock:
            self._deltas = {key: rollup for key, rollup in self._deltas.items() if rollup.window_ns >= before_ns}

    def extents(self) -> list[tuple[int, int]]:
        """(end, 0) of each window, oldest first: memory is not measured."""
        with self._lock:
            return sorted({(rollup.window_ns + 1, 0) for rollup in self._deltas.values()})

    def close(self) -> None:
        """Nothing to release."""

    def _of(self, tenant: str, run: str, metric: str) -> list[model.Rollup]:
        with self._lock:
            return [rollup for rollup in self._deltas.values() if (rollup.tenant, rollup.run, rollup.metric) == (tenant, run, metric)]


def _point(time_ns: int, deltas: list[model.Rollup]) -> SeriesPoint:
    finite = sum(delta.count - delta.nonfinite for delta in deltas)
    known = [delta for delta in deltas if delta.last is not None]
    return SeriesPoint(
        time_ns=time_ns,
        count=sum(delta.count for delta in deltas),
        mean=math.fsum(delta.sum for delta in deltas) / finite if finite else None,
        min=min(_known(delta.min for delta in deltas), default=None),
        max=max(_known(delta.max for delta in deltas), default=None),
        last=max(known, key=lambda delta: delta.last_ns).last if known else None,
        nonfinite=sum(delta.nonfinite for delta in deltas),
        step_min=min(_known(delta.step_min for delta in deltas), default=None),
        step_max=max(_known(delta.step_max for delta in deltas), default=None),
    )


def _known(values: Iterable[float | None]) -> list[Any]:
    return [value for value in values if value is not None]
