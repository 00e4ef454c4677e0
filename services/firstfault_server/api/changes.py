"""Tells open streams that incidents have changed; a stream that does not keep up is told so, and never holds up anybody."""

import asyncio
from collections.abc import Iterable
from typing import Final

MAX_WAITING: Final = 1000
MAX_STREAMS: Final = 200


class TooManyStreams(Exception):
    """No further stream can be opened now."""


class Subscription:
    """Ids that one stream has still to send."""

    def __init__(self, tenant: str) -> None:
        self.tenant = tenant
        self.waiting: dict[str, None] = {}
        self.lost = 0
        self.ended = False
        self.changed = asyncio.Event()

    def take(self) -> tuple[list[str], int]:
        """Ids since the last call, each once, oldest first, and how many were lost."""
        taken, lost = list(self.waiting), self.lost
        self.waiting.clear()
        self.lost = 0
        self.changed.clear()
        return taken, lost


class Changes:
    """All open streams. `publish` may be called from any thread, everything else on the event loop."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._open: set[Subscription] = set()
        self._closed = False

    def bind(self, loop: asyncio.AbstractEventLoop) -> None:
        """The event loop that streams live on."""
        self._loop = loop

    def publish(self, changed: Iterable[tuple[str, str]]) -> None:
        """(tenant, incident id) of incidents whose document changed."""
        found = list(changed)
        if found and self._loop is not None and self._open and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._spread, found)

    def _spread(self, changed: list[tuple[str, str]]) -> None:
        for subscription in self._open:
            for tenant, incident in changed:
                if tenant != subscription.tenant:
                    continue
                if incident not in subscription.waiting and len(subscription.waiting) >= MAX_WAITING:
                    subscription.lost += 1
                else:
                    subscription.waiting[incident] = None
                subscription.changed.set()

    def tenants(self) -> frozenset[str]:
        """Whose streams are open; from any thread."""
        return frozenset(subscription.tenant for subscription in tuple(self._open))

    def subscribe(self, tenant: str) -> Subscription:
        """A new stream. Raises TooManyStreams."""
        if len(self._open) >= MAX_STREAMS or self._closed:
            raise TooManyStreams
        subscription = Subscription(tenant)
        self._open.add(subscription)
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        """The stream has ended."""
        self._open.discard(subscription)

    async def close(self) -> None:
        """End all streams, so that the server can stop."""
        self._closed = True
        for subscription in self._open:
            subscription.ended = True
            subscription.changed.set()
