"""What every transport does with a request: authenticate, decompress, admit, split, append, acknowledge."""

import asyncio
import time
from collections.abc import Callable
from typing import Final

import msgspec

from firstfault_server.ingest.access import Access, Sender
from firstfault_server.ingest.clock import ReceiveClock
from firstfault_server.ingest.compression import decompress
from firstfault_server.ingest.quota import Quota
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
    tenant_bytes_per_s: int = 0
    """What one tenant may send, after decompression, of numbers and of everything else; 0: no limit."""


class Busy(Exception):
    """The queue is full; try again after `retry_after_s`."""

    def __init__(self, retry_after_s: int) -> None:
        super().__init__("too much is waiting to be stored; try again later")
        self.retry_after_s = retry_after_s


class Accepted(msgspec.Struct, frozen=True, kw_only=True):
    """A request that is durable, and what was not taken from it."""

    rejected: int = 0
    reason: str = ""


class Reservation:
    """Bytes that one request takes from the queue, from the moment they are expected until they are durable."""

    __slots__ = ("_queue", "size")

    def __init__(self, queue: "Queue") -> None:
        self._queue, self.size = queue, 0

    def grow(self, size: int) -> None:
        """Take at least so many. Raises Busy."""
        if size > self.size:
            self._queue.take(size - self.size, alone=self.size == self._queue.bytes)
            self.size = size

    def __enter__(self) -> "Reservation":
        return self

    def __exit__(self, *_: object) -> None:
        self._queue.take(-self.size, alone=True)


class Queue:
    """What lies in memory between receipt and the log, in bytes. A request that is alone is never too large for it."""

    def __init__(self, limits: Limits, metrics: IngestMetrics) -> None:
        self._limits, self._gauge = limits, metrics.queue_bytes
        self.bytes = 0

    def take(self, size: int, alone: bool) -> None:
        """Raises Busy."""
        if not alone and self.bytes + size > self._limits.queue_bytes:
            raise Busy(self._limits.retry_after_s)
        self.bytes += size
        self._gauge.set(self.bytes)


class Receiver:
    """The common core of the HTTP and gRPC receivers. All calls come from one event loop, so receive times are in log order."""

    def __init__(
        self,
        log: Log,
        access: Access,
        clock: ReceiveClock,
        metrics: IngestMetrics,
        limits: Limits | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._log, self._access, self._clock, self.metrics = log, access, clock, metrics
        self.limits = limits or Limits()
        self._quota = Quota(self.limits.tenant_bytes_per_s, monotonic)
        self._queue = Queue(self.limits, metrics)

    async def sender(self, authorization: str | None) -> Sender:
        """Who sends. Raises Denied, StoreUnavailable."""
        return await self._access.sender(authorization)

    def reserve(self) -> Reservation:
        """Room in the queue for one request; to be used as a context."""
        return Reservation(self._queue)

    async def receive(
        self, sender: Sender, reservation: Reservation, signal: Signal, body: bytes, *, json: bool = False, encoding: str = ""
    ) -> Accepted:
        """Take a request. Returns when it is durable.

        Raises Busy, OverQuota, TooLarge, Garbled, UnknownEncoding, Unreadable, StorageFull, StoreUnavailable.
        """
        numbers = signal == "metrics"
        self._quota.admit(sender.tenant, numbers)
        reservation.grow(len(body))
        node_records = "node" in sender.scopes
        if len(body) > LARGE or (encoding and len(body) > LARGE // 8):
            found, size = await asyncio.to_thread(self._open, signal, body, json, encoding, node_records)
        else:
            found, size = self._open(signal, body, json, encoding, node_records)
        self._quota.take(sender.tenant, numbers, size)
        if size > len(body):
            reservation.grow(len(body) + size)
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
