"""The input log, and the clock that stamps it."""

from collections.abc import Sequence
from typing import Literal, Protocol, TypeAlias

import msgspec

Signal: TypeAlias = Literal["metrics", "logs", "traces", "clock"]


class LogEntry(msgspec.Struct, kw_only=True, frozen=True, array_like=True):
    """One record of the input log: OTLP protobuf of exactly one training process, or a clock record (no key, no body)."""

    tenant: str
    process: str
    signal: Signal
    received_ns: int
    body: bytes = b""


class Log(Protocol):
    """The input log. Order is order of append; a position is an opaque string that sorts like the order within one partition."""

    async def append(self, entries: Sequence[LogEntry]) -> None:
        """Return when the entries are durable. Raises StorageFull, StoreUnavailable."""

    def read(self, after: str | None, limit_bytes: int) -> list[tuple[str, LogEntry]]:
        """Entries after a position (None: from the oldest kept), at most about `limit_bytes`; [] when there are none yet."""

    def wait(self, after: str | None, timeout_s: float) -> bool:
        """Block until something lies after the position; False on time-out."""

    def prune(self, before: str) -> None:
        """Forget entries up to and including a position that no reader needs any more."""

    def close(self) -> None:
        """Flush and release; appends after it raise StoreUnavailable."""


class Clock(Protocol):
    """Time at the edges; tests pass their own."""

    def now_ns(self) -> int:
        """Nanoseconds since the epoch."""
