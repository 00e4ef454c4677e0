"""The store of numbers: rollups, and series out of them."""

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from firstfault_server.core import model


class SeriesPoint(msgspec.Struct, kw_only=True):
    """One bucket of a series."""

    time_ns: int
    count: int
    mean: float | None
    min: float | None
    max: float | None
    last: float | None
    nonfinite: int
    step_min: int | None
    step_max: int | None


class SeriesQuery(msgspec.Struct, kw_only=True, frozen=True):
    """Buckets of one metric of one run; `points` bounds the buckets per series, bucket width is a multiple of 10 s."""

    tenant: str
    run: str
    metric: str
    rank: int | None = None
    since_ns: int | None = None
    until_ns: int | None = None
    points: int = 500


class AggregateStore(Protocol):
    """Rollups and counts."""

    def write_rollups(self, rollups: Sequence[model.Rollup]) -> None:
        """Insert deltas; the same delta twice counts once."""

    def series(self, query: SeriesQuery) -> dict[tuple[int | None, str], list[SeriesPoint]]:
        """Buckets by (rank, process); empty buckets are left out."""

    def metrics(self, tenant: str, run: str) -> list[str]:
        """Names of the metrics a run has sent."""

    def ranks(self, tenant: str, run: str, metric: str) -> list[dict[str, Any]]:
        """Per rank: rank, process, count, mean, last, nonfinite, last_ns."""

    def prune(self, before_ns: int) -> None:
        """Drop windows that are older."""

    def close(self) -> None:
        """Release the engine."""
