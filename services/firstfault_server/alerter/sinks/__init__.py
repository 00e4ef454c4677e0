"""Ways to deliver a message, one module a kind of destination."""

from typing import Protocol

import msgspec

from firstfault_server import ports


class Outcome(msgspec.Struct, kw_only=True, frozen=True):
    """What one try came to."""

    delivered: bool = False
    status: int | None = None
    error: str = ""
    retry_after_s: float | None = None
    """What the receiver asked for."""
    gone: bool = False
    """The receiver wants nothing more, ever."""


class Sink(Protocol):
    """Delivers messages to destinations of one kind."""

    async def send(self, destination: ports.Destination, message: ports.Message, now_ns: int) -> Outcome:
        """Try once; never raises for what a receiver or the network does."""

    async def close(self) -> None:
        """Release connections."""
