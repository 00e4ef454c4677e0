"""Reading a topic by positions, without a consumer group: the reader says where it is, and the cluster keeps nothing of it."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, Final

import msgspec
from confluent_kafka import OFFSET_BEGINNING, Consumer, IsolationLevel, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from firstfault_server.adapters.kafka.connection import REQUEST_S, Connection
from firstfault_server.adapters.kafka.cursor import Cursor
from firstfault_server.adapters.kafka.producer import partitions_of
from firstfault_server.adapters.kafka.records import Foreign, decode
from firstfault_server.ports import LogEntry, StoreUnavailable

SLICE_S: Final = 0.1
FETCH_BYTES: Final = 8 << 20
PASSING: Final = frozenset({KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT, KafkaError._RESOLVE})
"""The client tries again by itself; whether the cluster is away shows when it is asked for the ends."""
MOVING: Final = frozenset(
    {
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.OFFSET_NOT_AVAILABLE,
    }
)
"""A partition has no leader for a moment: just made, or its broker has gone."""
RETRY_S: Final = 0.1

_logger = logging.getLogger(__name__)


class ReaderCounts(msgspec.Struct, kw_only=True):
    """What happened since the reader was opened."""

    foreign: int = 0
    """Records that ingest did not write, passed over."""


class LogReader:
    """Reads all partitions of a topic, each in its own order. One caller at a time; others wait."""

    def __init__(self, connection: Connection, topic: str) -> None:
        self._connection, self._topic = connection, topic
        self._consumer = Consumer(
            connection.options(
                group_id="firstfault-reader",
                enable_auto_commit=False,
                enable_auto_offset_store=False,
                auto_offset_reset="earliest",
                isolation_level="read_committed",
                # The only sign that nothing lies between what was taken and the end: markers and deleted records have offsets, too.
                enable_partition_eof=True,
                queued_max_messages_kbytes=FETCH_BYTES >> 10,
                fetch_wait_max_ms=100,
            )
        )
        self._admin = AdminClient(connection.options())
        self.counts = ReaderCounts()
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._cursor: Cursor | None = None
        """Up to where the caller has taken; None before the first call and after an error."""
        self._reached: dict[int, int] = {}
        """Next offset to take of each assigned partition, foreign records passed over."""
        self._ahead: deque[Message] = deque()

    def read(self, after: str | None, limit_bytes: int) -> list[tuple[str, LogEntry]]:
        """Entries after a position, at most about `limit_bytes`; [] when there are none. Raises StoreUnavailable."""
        with self._lock:
            self._go_to(Cursor.parse(after))
            found: list[tuple[str, LogEntry]] = []
            size, deadline = 0, time.monotonic() + REQUEST_S
            while size < limit_bytes:
                message = self._next(0.0)
                if message is None:
                    if found or not self._behind():
                        break
                    if time.monotonic() > deadline:
                        raise StoreUnavailable(f"Kafka at {self._connection.bootstrap} cannot read {self._topic}: no records in time")
                    self._fetch(SLICE_S)
                    continue
                size += self._take(message, found)
            return found

    def wait(self, after: str | None, timeout_s: float) -> bool:
        """Block until something lies after the position; False on time-out or when the reader was closed."""
        deadline = time.monotonic() + timeout_s
        while not self._closed.is_set():
            with self._lock:
                if self._closed.is_set():
                    return False
                self._go_to(Cursor.parse(after))
                left = deadline - time.monotonic()
                if self._ahead or self._fetch(max(0.0, min(SLICE_S, left))) or (left <= 0 and self._behind()):
                    return True
                if left <= 0:
                    return False
        return False

    def ends(self) -> dict[int, int]:
        """The offset that the next record of each partition will get. Raises StoreUnavailable."""
        wanted = {TopicPartition(self._topic, each): OffsetSpec.latest() for each in self._partitions()}
        level = IsolationLevel.READ_COMMITTED
        answers = self._ask(
            lambda: self._admin.list_offsets(wanted, isolation_level=level, request_timeout=REQUEST_S), f"tell the ends of {self._topic}"
        )
        return {partition: answer.offset for partition, answer in answers.items()}

    def forget(self, before: Cursor) -> None:
        """Have the cluster delete what lies up to the cursor. Raises StoreUnavailable."""
        gone = [TopicPartition(self._topic, partition, offset + 1) for partition, offset in before.offsets.items()]
        if gone:
            self._ask(lambda: self._admin.delete_records(gone, request_timeout=REQUEST_S), f"shorten {self._topic}")

    def _ask(self, question: Callable[[], Mapping[TopicPartition, "Future[Any]"]], doing: str) -> dict[int, Any]:
        """Answers by partition; while the cluster moves partitions, it is asked again."""
        deadline = time.monotonic() + REQUEST_S
        while True:
            try:
                return {each.partition: answer.result(REQUEST_S) for each, answer in question().items()}
            except KafkaException as error:
                if error.args[0].code() not in MOVING or time.monotonic() > deadline or self._closed.wait(RETRY_S):
                    raise self._connection.unavailable(error, doing) from error
            except TimeoutError as error:
                raise StoreUnavailable(f"Kafka at {self._connection.bootstrap} cannot {doing}: no answer in time") from error

    def close(self) -> None:
        """Release the client; a waiting caller returns."""
        self._closed.set()
        with self._lock:
            self._consumer.close()

    # ---- where it stands -------------------------------------------------------------------------------------------------

    def _partitions(self) -> list[int]:
        return partitions_of(self._admin, self._connection, self._topic)

    def _go_to(self, cursor: Cursor) -> None:
        """Stand after the cursor; costs nothing when the caller reads on from where it was."""
        if self._closed.is_set():
            raise StoreUnavailable("the log is closed; the service is shutting down")
        if self._cursor is not None and self._cursor.offsets == cursor.offsets:
            return
        partitions = self._partitions()
        self._ahead.clear()
        self._reached = {each: cursor.next_offset(each) or 0 for each in partitions}
        starts = {each: cursor.next_offset(each) for each in partitions}
        try:
            self._consumer.assign(
                [TopicPartition(self._topic, each, OFFSET_BEGINNING if start is None else start) for each, start in starts.items()]
            )
        except KafkaException as error:
            raise self._connection.unavailable(error, f"read {self._topic}") from error
        self._cursor = cursor

    def _behind(self) -> bool:
        """Whether durable records lie after what was taken; takes up partitions that were added."""
        ends = self.ends()
        added = [TopicPartition(self._topic, each, OFFSET_BEGINNING) for each in ends if each not in self._reached]
        if added:
            self._consumer.incremental_assign(added)
            self._reached |= {each.partition: 0 for each in added}
        return any(end > self._reached[partition] for partition, end in ends.items())

    # ---- records ---------------------------------------------------------------------------------------------------------

    def _next(self, timeout_s: float) -> Message | None:
        if not self._ahead and not self._fetch(timeout_s):
            return None
        return self._ahead.popleft()

    def _fetch(self, timeout_s: float) -> bool:
        """Put the next record, if one comes in time, where `_next` finds it."""
        message = self._consumer.poll(timeout_s)
        if message is None:
            return False
        error = message.error()
        if error is None:
            self._ahead.append(message)
            return True
        if error.code() == KafkaError._PARTITION_EOF:
            partition, end = message.partition(), message.offset()
            if partition is not None and end is not None:
                self._reached[partition] = max(end, self._reached[partition])
            return False
        if error.code() in PASSING:
            return False
        self._cursor = None
        raise self._connection.unavailable(error, f"read {self._topic}")

    def _take(self, message: Message, found: list[tuple[str, LogEntry]]) -> int:
        partition, offset = message.partition(), message.offset()
        assert partition is not None and offset is not None and self._cursor is not None
        self._reached[partition] = offset + 1
        try:
            entry = decode(message)
        except Foreign as reason:
            self.counts.foreign += 1
            _logger.error("a record of %s, partition %d, offset %d, was passed over: %s", self._topic, partition, offset, reason)
            return 0
        self._cursor = self._cursor.after(partition, offset)
        found.append((str(self._cursor), entry))
        return len(message)
