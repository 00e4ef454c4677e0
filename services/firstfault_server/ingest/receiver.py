"""What every transport does with a request: authenticate, decompress, admit, split, append, acknowledge."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import msgspec

from firstfault_server.ingest.access import Access
from firstfault_server.ingest.clock import ReceiveClock
from firstfault_server.ingest.compression import decompress
from firstfault_server.ingest.telemetry import IngestMetrics
from firstfault_server.ports import Log, LogEntry, Signal
from firstfault_server.wire.otlp import Split, split

LARGE: Final = 256 << 10
"""Bodies above this are unpacked and parsed in a thread, so that they do not hold up the others."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What the receivers take."""

    body_bytes: int = 16 << 20
    """As received."""
    plain_bytes: int = 64 << 20
    """After decompression."""
    queue_bytes: int = 128 << 20
    """Of all requests between receipt and the log; beyond it senders are told to come again later."""
    retry_after_s: int = 1


class Busy(Exception):
    """The queue is full; try again after `retry_after_s`."""

    def __init__(self, retry_after_s: int) -> None:
        super().__init__("too much is waiting to be stored; try again later")
        self.retry_after_s = retry_after_s


class Accepted(msgspec.Struct, frozen=True, kw_only=True):
    """A request that is durable, and what was not taken from it."""

    rejected: int = 0
    reason: str = ""


class Receiver:
    """The common core of the HTTP and gRPC receivers. All calls come from one event loop, so receive times are in log order."""

    def __init__(self, log: Log, access: Access, clock: ReceiveClock, metrics: IngestMetrics, limits: Limits | None = None) -> None:
        self._log, self._access, self._clock, self.metrics = log, access, clock, metrics
        self.limits = limits or Limits()
        self._queued = 0

    async def receive(self, signal: Signal, body: bytes, *, json: bool = False, encoding: str = "", authorization: str | None) -> Accepted:
        """Take a request. Returns when it is durable.

        Raises Denied, Busy, TooLarge, Garbled, UnknownEncoding, Unreadable, StorageFull, StoreUnavailable.
        """
        sender = await self._access.sender(authorization)
        with self._admitted(len(body)):
            node_records = "node" in sender.scopes
            if len(body) > LARGE or (encoding and len(body) > LARGE // 8):
                found, size = await asyncio.to_thread(self._open, signal, body, json, encoding, node_records)
            else:
                found, size = self._open(signal, body, json, encoding, node_records)
            with self._admitted(size):
                await self._append(signal, sender.tenant, found)
        self.metrics.taken(signal, size, len(found.parts))
        for why, count in found.rejected.items():
            self.metrics.rejected.labels(signal, why).inc(count)
        return Accepted(rejected=found.rejected.total(), reason=found.reason)

    def _open(self, signal: Signal, body: bytes, json: bool, encoding: str, node_records: bool) -> tuple[Split, int]:
        plain = decompress(body, encoding, self.limits.plain_bytes)
        return split(signal, plain, json=json, node_records=node_records), len(plain)

    async def _append(self, signal: Signal, tenant: str, found: Split) -> None:
        if not found.parts:
            return
        now_ns = self._clock.now_ns()
        entries = [LogEntry(tenant=tenant, process=p.process, signal=signal, received_ns=now_ns, body=p.body) for p in found.parts]
        start = time.perf_counter()
        await self._log.append(entries)
        self.metrics.append_seconds.observe(time.perf_counter() - start)

    @contextmanager
    def _admitted(self, size: int) -> Iterator[None]:
        if self._queued and self._queued + size > self.limits.queue_bytes:
            raise Busy(self.limits.retry_after_s)
        self._queued += size
        self.metrics.queue_bytes.set(self._queued)
        try:
            yield
        finally:
            self._queued -= size
            self.metrics.queue_bytes.set(self._queued)
