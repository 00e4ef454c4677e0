"""Removes what is older than its time or more than its share of the disk, and counts it."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import msgspec
from prometheus_client import CollectorRegistry, Counter, Gauge
from structlog.typing import FilteringBoundLogger

from firstfault_server.ports import Clock, StoreUnavailable

EVERY_S: Final = 600.0
LOOK_S: Final = 10.0
"""How soon a process notices that it leads."""
DAY_NS: Final = 86_400 * 1_000_000_000

Extent: TypeAlias = tuple[int, int]
"""(end in ns, bytes) of a piece that a store drops as a whole."""


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """One store and how much of it stays."""

    name: str
    prune: Callable[[int], object]
    """Drops what ends before a time; an int that it returns counts what went."""
    days: float
    extents: Callable[[], Sequence[Extent]] | None = None
    """Its pieces, oldest first; None where nothing is measured."""
    max_bytes: int | None = None


def size_cut(extents: Sequence[Extent], max_bytes: int) -> int | None:
    """Time before which everything has to go so that the rest fits; None when all of it fits.

    The newest piece always stays, since it is still being written.
    """
    left = max_bytes
    for number, (_, size) in enumerate(reversed(extents)):
        left -= size
        if left < 0 and number > 0:
            return extents[len(extents) - 1 - number][0]
    return None


def cut(kept: Kept, extents: Sequence[Extent], now_ns: int) -> tuple[int, str]:
    """Time before which everything goes, and whether age or size says so."""
    by_age = now_ns - int(kept.days * DAY_NS)
    by_size = None if kept.max_bytes is None else size_cut(extents, kept.max_bytes)
    return (by_age, "age") if by_size is None or by_size <= by_age else (by_size, "size")


class RetentionMetrics:
    """What retention removed and what is left."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.rounds = Counter(
            "firstfault_retention_prunes", "Prunes of a store, by what asked for the cut", ["store", "reason"], registry=registry
        )
        self.removed = Counter("firstfault_retention_removed", "Records removed, where the store counts them", ["store"], registry=registry)
        self.failures = Counter("firstfault_retention_failures", "Prunes that the store refused", ["store"], registry=registry)
        self.bytes = Gauge("firstfault_retention_stored_bytes", "Size of what is kept", ["store"], registry=registry)


class Retention:
    """Prunes every store now and then; one that is down is tried again the next time and holds up no other."""

    def __init__(self, stores: Sequence[Kept], clock: Clock, metrics: RetentionMetrics, log: FilteringBoundLogger) -> None:
        self._stores, self._clock, self._metrics, self._log = stores, clock, metrics, log

    def prune(self) -> None:
        """One round over all stores. Blocks."""
        for kept in self._stores:
            try:
                self._prune(kept)
            except Exception as error:
                # A store may say anything when another process removes the same at the same time; the next round tells.
                self._metrics.failures.labels(kept.name).inc()
                details = {} if isinstance(error, StoreUnavailable) else {"exc_info": error}
                self._log.error("old data could not be removed", store=kept.name, reason=str(error), **details)

    def _prune(self, kept: Kept) -> None:
        extents = [] if kept.extents is None else kept.extents()
        before_ns, reason = cut(kept, extents, self._clock.now_ns())
        gone = kept.prune(before_ns)
        self._metrics.rounds.labels(kept.name, reason).inc()
        if isinstance(gone, int):
            self._metrics.removed.labels(kept.name).inc(gone)
        if kept.extents is not None:
            self._metrics.bytes.labels(kept.name).set(sum(size for _, size in kept.extents()))
        if reason == "size":
            self._log.warning("the store is larger than its share; its oldest part was removed", store=kept.name, limit=kept.max_bytes)

    async def run(self, every_s: float = EVERY_S, leads: Callable[[], bool] = lambda: True, look_s: float = LOOK_S) -> None:
        """Prune at once and then every so often, until cancelled. Of several processes the one that leads does so."""
        while True:
            if leads():
                await asyncio.to_thread(self.prune)
                await asyncio.sleep(every_s)
            else:
                await asyncio.sleep(look_s)
