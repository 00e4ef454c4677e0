"""A log that remembers whether its last append succeeded, for readiness."""

from collections.abc import Sequence

from firstfault_server.ports import Log, LogEntry, StoreUnavailable


class WatchedLog:
    """Passes everything on. Clock records are appended several times a second, so what it says is never old."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self.problem = "nothing was appended yet"
        """Why nothing can be appended now; empty: it can."""

    async def append(self, entries: Sequence[LogEntry]) -> None:
        """Return when the entries are durable. Raises StorageFull, StoreUnavailable."""
        try:
            await self._log.append(entries)
        except StoreUnavailable as error:
            self.problem = str(error)
            raise
        self.problem = ""

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
