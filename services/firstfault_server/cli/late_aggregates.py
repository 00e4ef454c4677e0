"""An aggregate store whose engine is opened in the background: it takes seconds, and nothing else needs to wait for it."""

import threading
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from structlog.typing import FilteringBoundLogger

from firstfault_server import ports
from firstfault_server.core import model

RETRY_S: Final = 5.0
START_END_S: Final = 2.0


class MeasuredAggregates(ports.AggregateStore, Protocol):
    """An aggregate store that knows the size of its pieces."""

    def extents(self) -> Sequence[tuple[int, int]]:
        """(end, bytes) of each piece that pruning drops as a whole, oldest first."""


class LateAggregates:
    """Reads and writes are refused until the engine is there; pruning, which is in no hurry, waits for its first start."""

    def __init__(self, opening: Callable[[], MeasuredAggregates], log: FilteringBoundLogger) -> None:
        self._opening = opening
        self._log = log
        self._settled = threading.Event()
        self._closing = threading.Event()
        self._store: MeasuredAggregates | None = None
        self._problem = "the metrics engine is starting"
        self._thread = threading.Thread(target=self._open, name="open-aggregates", daemon=True)
        self._thread.start()

    def _open(self) -> None:
        while not self._closing.is_set():
            try:
                self._store = self._opening()
            except ports.StoreUnavailable as error:
                self._problem = str(error)
                self._log.error("the metrics engine cannot be opened", reason=self._problem)
                self._settled.set()
                self._closing.wait(RETRY_S)
            else:
                self._settled.set()
                return

    @property
    def problem(self) -> str:
        """Why numbers cannot be read or written now; empty: they can."""
        return "" if self._store is not None else self._problem

    def _opened(self) -> MeasuredAggregates:
        if self._store is None:
            raise ports.StoreUnavailable(self._problem)
        return self._store

    def write_rollups(self, rollups: Sequence[model.Rollup]) -> None:
        """Insert deltas; the same delta twice counts once. Raises StoreUnavailable until the engine is there: the writer asks again."""
        self._opened().write_rollups(rollups)

    def series(self, query: ports.SeriesQuery) -> dict[tuple[int | None, str], list[ports.SeriesPoint]]:
        """Buckets by (rank, process); empty buckets are left out."""
        return self._opened().series(query)

    def metrics(self, tenant: str, run: str) -> list[str]:
        """Names of the metrics a run has sent."""
        return self._opened().metrics(tenant, run)

    def ranks(self, tenant: str, run: str, metric: str) -> list[dict[str, Any]]:
        """Figures per rank."""
        return self._opened().ranks(tenant, run, metric)

    def prune(self, before_ns: int) -> None:
        """Drop windows that are older. Waits for the engine's first start."""
        self._settled.wait()
        self._opened().prune(before_ns)

    def extents(self) -> Sequence[tuple[int, int]]:
        """Pieces and their sizes, oldest first. Waits for the engine's first start."""
        self._settled.wait()
        return self._opened().extents()

    def close(self) -> None:
        """Release the engine; one that is just starting is waited for a little, since its start cannot be interrupted."""
        self._closing.set()
        self._settled.set()
        self._thread.join(START_END_S)
        if self._store is not None:
            self._store.close()
