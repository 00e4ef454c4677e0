"""Durable appends: an idempotent producer whose acknowledgements resume the tasks that wait for them."""

import asyncio
import logging
import threading
from collections.abc import Sequence
from typing import Any, Final

import msgspec
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from firstfault_server.adapters.kafka.connection import REQUEST_S, Connection
from firstfault_server.adapters.kafka.records import encode
from firstfault_server.ports import LogEntry, StoreUnavailable

DELIVERY_S: Final = 10.0
"""After this a sender is told to come again; what then arrives twice is dropped by its batch number."""
LINGER_MS: Final = 5
LARGEST_RECORD: Final = 68 << 20
"""Above what the receivers take in one request, so that nothing which was admitted is too large. The topic must allow it, too."""
QUEUE_KB: Final = 192 << 10
POLL_S: Final = 0.1
PARTITIONS_S: Final = 30.0
"""How old the known number of partitions may be: clock records must reach those that were added."""

_logger = logging.getLogger(__name__)


class ProducerCounts(msgspec.Struct, kw_only=True):
    """What happened since the producer was opened."""

    acknowledged: int = 0
    failed: int = 0
    replaced: int = 0
    """Clients given up after an error that they cannot recover from."""


class _Append:
    """One append: counts its records down and then resumes the task that waits."""

    __slots__ = ("_done", "_left", "_loop", "_owner", "error")

    def __init__(self, owner: "LogProducer", records: int, loop: asyncio.AbstractEventLoop, done: "asyncio.Future[None]") -> None:
        self._owner, self._left, self._loop, self._done = owner, records, loop, done
        self.error: KafkaError | None = None

    def delivered(self, error: KafkaError | None, _message: Message) -> None:
        """Called once for each record, always in the poll thread."""
        if error is None:
            self._owner.counts.acknowledged += 1
        else:
            self._owner.counts.failed += 1
            self.error = error
        self._left -= 1
        if not self._left:
            try:
                self._loop.call_soon_threadsafe(self._resume)
            except RuntimeError:
                # The sender's loop is closed, and nobody waits for the answer any more.
                return

    def _resume(self) -> None:
        if self._done.done():
            return
        if self.error is None:
            self._done.set_result(None)
        else:
            self._done.set_exception(self._owner.refused(self.error))


class LogProducer:
    """Writes log entries to one topic. Records of one process keep their order, also over retries."""

    def __init__(self, connection: Connection, topic: str, *, delivery_s: float = DELIVERY_S) -> None:
        """Connects in the background; a cluster that is away shows in the first append."""
        self._connection, self._topic, self._delivery_s = connection, topic, delivery_s
        self.counts = ProducerCounts()
        self._client = self._connect()
        self._over = False
        self._partitions: list[int] = []
        self._partitions_at = 0.0
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._poll, name="kafka-producer", daemon=True)
        self._thread.start()

    def _connect(self) -> Producer:
        options = self._connection.options(
            enable_idempotence=True,
            acks="all",
            compression_type="zstd",
            linger_ms=LINGER_MS,
            partitioner="murmur2_random",
            delivery_timeout_ms=int(self._delivery_s * 1000),
            message_max_bytes=LARGEST_RECORD,
            queue_buffering_max_kbytes=QUEUE_KB,
            topic_metadata_propagation_max_ms=int(self._delivery_s * 500),
        )
        return Producer(options)

    def refused(self, error: KafkaError) -> StoreUnavailable:
        """What the senders are told."""
        return self._connection.unavailable(error, f"append to {self._topic}")

    async def append(self, entries: Sequence[LogEntry]) -> None:
        """Return when every replica in sync has the entries. Raises StoreUnavailable; some may be durable then."""
        if self._closing.is_set():
            raise StoreUnavailable("the log is closed; the service is shutting down")
        if not entries:
            return
        loop = asyncio.get_running_loop()
        partitions = await self._all_partitions(loop) if any(entry.signal == "clock" for entry in entries) else []
        done: asyncio.Future[None] = loop.create_future()
        records = sum(len(partitions) if entry.signal == "clock" else 1 for entry in entries)
        append = _Append(self, records, loop, done)
        try:
            for entry in entries:
                self._send(entry, partitions if entry.signal == "clock" else [-1], append)
        except StoreUnavailable:
            # Those that were taken are still under way, but nobody waits for them any more.
            done.cancel()
            raise
        await done

    def _send(self, entry: LogEntry, partitions: Sequence[int], append: _Append) -> None:
        record = encode(entry)
        fields: dict[str, Any] = {"key": record.key, "value": record.value, "timestamp": record.timestamp_ms}
        for partition in partitions:
            try:
                self._client.produce(self._topic, partition=partition, headers=list(record.headers), on_delivery=append.delivered, **fields)
            except BufferError as error:
                raise StoreUnavailable(f"Kafka at {self._connection.bootstrap} takes too little: too much waits to be sent") from error
            except KafkaException as error:
                self._note_if_over(error)
                raise self._connection.unavailable(error, f"append to {self._topic}") from error

    def _note_if_over(self, error: KafkaException) -> None:
        """An idempotent client that cannot tell any more what arrived refuses everything from then on."""
        cause = error.args[0]
        if isinstance(cause, KafkaError) and (cause.fatal() or cause.code() == KafkaError._FATAL):
            self._over = True

    def _replace(self) -> None:
        """Done in the poll thread, which therefore stays the only one that hears of deliveries."""
        self._over = False
        self.counts.replaced += 1
        _logger.error("the Kafka producer for %s is replaced after an error from which it cannot recover", self._topic)
        self._client.purge()
        self._client.flush(POLL_S)
        self._client = self._connect()

    async def _all_partitions(self, loop: asyncio.AbstractEventLoop) -> list[int]:
        if not self._partitions or loop.time() > self._partitions_at + PARTITIONS_S:
            self._partitions = await asyncio.to_thread(partitions_of, self._client, self._connection, self._topic)
            self._partitions_at = loop.time()
        return self._partitions

    def _poll(self) -> None:
        while not self._closing.is_set():
            self._client.poll(POLL_S)
            if self._over:
                self._replace()

    def close(self) -> None:
        """Wait for what is under way, at most as long as one delivery may take."""
        if self._closing.is_set():
            return
        self._closing.set()
        self._thread.join()
        left = self._client.flush(self._delivery_s)
        if left:
            _logger.error(
                "%d records for %s were given up at the end; their senders were not told that they are durable", left, self._topic
            )
            self._client.purge()
            self._client.flush(POLL_S)


def partitions_of(client: Any, connection: Connection, topic: str) -> list[int]:
    """Numbers of the topic's partitions. Raises StoreUnavailable, also when there is no such topic."""
    try:
        found = client.list_topics(topic, timeout=REQUEST_S).topics[topic]
    except KafkaException as error:
        # So that it tells what it has heard.
        client.poll(0.0)
        raise connection.unavailable(error, f"describe {topic}") from error
    if found.error is not None:
        raise connection.unavailable(found.error, f"describe {topic}")
    return sorted(found.partitions)
