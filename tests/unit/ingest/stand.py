"""A receiver over a real file log and an in-memory key store."""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import httpx
from prometheus_client import CollectorRegistry

from firstfault_server.adapters.filelog import FileLog
from firstfault_server.adapters.memory.access import MemoryAccessStore
from firstfault_server.adapters.memory.state import State
from firstfault_server.ingest.access import Access, secret_hash
from firstfault_server.ingest.clock import ReceiveClock
from firstfault_server.ingest.http import Application, otlp_app
from firstfault_server.ingest.receiver import Accepted, Limits, Receiver
from firstfault_server.ingest.telemetry import IngestMetrics
from firstfault_server.ports import AccessKey, LogEntry, Permission, Signal
from tests.unit.wire.requests import NOW


class StillClock:
    """A wall clock that stands where the test put it."""

    def __init__(self, now_ns: int = NOW) -> None:
        self.at = now_ns

    def now_ns(self) -> int:
        return self.at


class Stand:
    """What a test of the receivers holds on to."""

    def __init__(self, folder: Path, limits: Limits | None = None) -> None:
        self.log = FileLog(folder)
        self.keys = MemoryAccessStore(State())
        self.registry = CollectorRegistry()
        self.seconds = 0.0
        self.access = Access(self.keys, monotonic=lambda: self.seconds)
        clock = ReceiveClock(StillClock(), monotonic_ns=lambda: 0)
        self.receiver = Receiver(self.log, self.access, clock, IngestMetrics(self.registry), limits, lambda: self.seconds)

    def key(self, secret: str, *scopes: Permission, tenant: str = "acme", revoked_ns: int | None = None) -> str:
        """Make a key; returns its authorization header."""
        self.keys.put_key(
            AccessKey(
                id=f"id-{secret}",
                tenant=tenant,
                name=secret,
                secret_hash=secret_hash(f"ffk_{secret}"),
                scopes=list(scopes or ("ingest",)),
                created_ns=NOW,
                revoked_ns=revoked_ns,
            )
        )
        return f"Bearer ffk_{secret}"

    async def receive(self, signal: Signal, body: bytes, authorization: str | None = None) -> Accepted:
        """Take a request, by default of anybody, as the transports do."""
        sender = await self.receiver.sender(authorization)
        with self.receiver.reserve() as reservation:
            return await self.receiver.receive(sender, reservation, signal, body)

    def stored(self) -> list[LogEntry]:
        return [entry for _, entry in self.log.read(None, 1 << 30)]

    def count(self, name: str, **labels: str) -> float:
        return self.registry.get_sample_value(name, labels) or 0.0


class Client:
    """Sends single requests to an application."""

    def __init__(self, app: Application) -> None:
        self._app = app

    def request(self, method: str, path: str, content: bytes = b"", headers: Mapping[str, str] | None = None) -> httpx.Response:
        async def send() -> httpx.Response:
            async with httpx.AsyncClient(transport=httpx.ASGITransport(self._app), base_url="http://127.0.0.1") as client:
                return await client.request(method, path, content=content, headers=headers)

        return asyncio.run(send())

    def post(self, path: str, content: bytes = b"", headers: Mapping[str, str] | None = None) -> httpx.Response:
        return self.request("POST", path, content, headers)


@contextmanager
def stand(folder: Path, limits: Limits | None = None) -> Iterator[tuple[Stand, Client]]:
    """A stand and an HTTP client of it."""
    made = Stand(folder, limits)
    try:
        yield made, Client(otlp_app(made.receiver))
    finally:
        made.log.close()
