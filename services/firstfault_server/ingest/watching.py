"""A log that knows whether appends succeed, for readiness."""

import itertools
import time
from collections.abc import Callable, Sequence
from typing import Final

from firstfault_server.ports import Log, LogEntry, StoreUnavailable

PATIENCE_S: Final = 2.0
"""A log that is away is given up on much later by its client; requests that come meanwhile would only wait for that."""


class WatchedLog:
    """Passes everything on. Clock records are appended several times a second, so what it says is never old."""

    def __init__(self, log: Log, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._log, self._monotonic = log, monotonic
        self._said = "nothing was appended yet"
        self._numbers = itertools.count()
        self._under_way: dict[int, float] = {}
        """When each append that has not ended was begun, oldest first."""
        self._durable_at = 0.0

    @property
    def problem(self) -> str:
        """Why nothing can be appended now; empty: it can.

        Appends that are slow because there are many of them are no problem: some become durable all the time.
        """
        begun_at = next(iter(self._under_way.values()), None)
        waited_s = 0.0 if begun_at is None else self._monotonic() - max(begun_at, self._durable_at)
        return self._said or (f"nothing became durable for {waited_s:.0f} s" if waited_s > PATIENCE_S else "")

    async def append(self, entries: Sequence[LogEntry]) -> None:
        """Return when the entries are durable. Raises StorageFull, StoreUnavailable."""
        number = next(self._numbers)
        self._under_way[number] = self._monotonic()
        try:
            await self._log.append(entries)
        except StoreUnavailable as error:
            self._said = str(error)
            raise
        finally:
            del self._under_way[number]
        self._said, self._durable_at = "", self._monotonic()

    def read(self, after: str | None, limit_bytes: int) -> list[tuple[str, LogEntry]]:
        """Entries after a position."""
        return self._log.read(after, limit_bytes)

    def wait(self, after: str | None, timeout_s: float) -> bool:
        """Block until something lies after the position."""
        return self._log.wait(after, timeout_s)

    def prune(self, before: str) -> None:
        """Forget entries up to a position."""
        self._log.prune(before)

    def close(self) -> None:
        """Flush and release."""
        self._log.close()
