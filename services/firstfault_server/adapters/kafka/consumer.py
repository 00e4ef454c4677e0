"""A member of a consumer group that holds a batch in hand until it is stored, however long that takes.

Offsets are committed only for what was stored, so a member that dies loses nothing: another one reads again what it had in hand.
While a store is away the member stays in its group with its partitions paused. Partitions that move to another member take their
records out of the hand.
"""

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient

from firstfault_server.adapters.kafka.connection import Connection
from firstfault_server.adapters.kafka.offsets import Place, check_topics, ends
from firstfault_server.adapters.kafka.records import MILLISECOND_NS
from firstfault_server.adapters.kafka.topics import topic_name
from firstfault_server.wire.incoming import TopicRecord

SESSION_MS: Final = 6_000
"""A member that was killed gives its partitions up after this; brokers take no less by default."""
COMMIT_MS: Final = 1_000
REFRESH_MS: Final = 5_000
"""How soon topics and partitions that were just made are seen."""
FETCH_BYTES: Final = 8 << 20
AHEAD_KB: Final = 16 << 10
SLICE_S: Final = 0.1
MISSING: Final = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION})
DENIED: Final = frozenset({KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED})

_logger = logging.getLogger(__name__)


class Take(msgspec.Struct, frozen=True, kw_only=True):
    """How much a batch may hold, and how long it may wait to become larger."""

    records: int = 500
    bytes: int = 4 << 20
    """About; one record may be larger."""
    linger_s: float = 0.01
    """After its first record."""


class GroupConsumer:
    """One thread calls `fetch`, then `done` or `hold`; `lag` may be read by any."""

    def __init__(self, connection: Connection, prefix: str, topics: Sequence[str], group: str, take: Take) -> None:
        """`topics` as the contract names them. Connects in the background; a cluster that is away shows in `measure`."""
        self._connection, self._take = connection, take
        self.group = f"{prefix}-{group}"
        self._topics = {topic_name(prefix, topic): topic for topic in topics}
        self._admin = AdminClient(connection.options())
        self._consumer = Consumer(
            connection.options(
                group_id=self.group,
                partition_assignment_strategy="cooperative-sticky",
                session_timeout_ms=SESSION_MS,
                heartbeat_interval_ms=SESSION_MS // 3,
                enable_auto_offset_store=False,
                auto_commit_interval_ms=COMMIT_MS,
                auto_offset_reset="earliest",
                isolation_level="read_committed",
                enable_partition_eof=True,
                topic_metadata_refresh_interval_ms=REFRESH_MS,
                fetch_max_bytes=FETCH_BYTES,
                queued_max_messages_kbytes=AHEAD_KB,
                fetch_wait_max_ms=100,
            )
        )
        self._hand: list[tuple[Place, int, TopicRecord]] = []
        self._ours: set[Place] = set()
        self._paused = False
        self._stored: dict[Place, int] = {}
        """Up to where all is stored, for places where that is known."""
        self._ended: dict[Place, int] = {}
        """Where the end was, when it was last reached."""
        self.lag: Mapping[str, int] = {}
        """Records by topic that this member has still to store, when last measured."""
        self._consumer.subscribe(list(self._topics), on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_revoke)

    def fetch(self, wait_s: float) -> Sequence[TopicRecord]:
        """A new batch, or what is left in hand; [] when nothing came in time. Raises StoreUnavailable."""
        if self._hand:
            return self._records()
        self._pause(False)
        deadline = time.monotonic() + wait_s
        while not self._hand and (left := deadline - time.monotonic()) > 0:
            self._take_in([self._consumer.poll(left)])
        deadline = time.monotonic() + self._take.linger_s
        size = sum(len(record.value) for _, _, record in self._hand)
        while self._hand and len(self._hand) < self._take.records and size < self._take.bytes:
            more = self._consumer.consume(self._take.records - len(self._hand), timeout=max(0.0, min(deadline - time.monotonic(), SLICE_S)))
            size += sum(len(message) for message in more)
            self._take_in(more)
            if time.monotonic() >= deadline:
                break
        return self._records()

    def hold(self, seconds: float, until: threading.Event) -> Sequence[TopicRecord]:
        """Stay in the group for a while without taking more; what is still in hand then."""
        self._pause(True)
        deadline = time.monotonic() + seconds
        while not until.is_set() and (left := deadline - time.monotonic()) > 0:
            self._take_in([self._consumer.poll(min(left, SLICE_S))])
        return self._records()

    def done(self) -> None:
        """What is in hand was stored: its offsets may be committed."""
        if not self._hand:
            return
        reached: dict[Place, int] = {}
        for place, offset, _ in self._hand:
            reached[place] = offset + 1
        self._hand.clear()
        for place, offset in reached.items():
            self._stored[place] = max(offset, self._ended.get(place, 0))
        try:
            self._consumer.store_offsets(offsets=[TopicPartition(*place, offset) for place, offset in reached.items()])
        except KafkaException as error:
            # The partitions went to another member just now, which will store the same records again.
            _logger.info("offsets of %s could not be kept: %s", self.group, error)

    @property
    def leads(self) -> bool:
        """Whether the first partition of the first topic is this member's: true of one member at a time."""
        return (next(iter(self._topics)), 0) in self._ours

    def measure(self) -> None:
        """Look how much there is to do. Raises StoreUnavailable, also when a topic is missing."""
        check_topics(self._admin, self._connection, self._topics)
        found = ends(self._admin, self._connection, [place for place in self._ours if place in self._stored])
        lag = dict.fromkeys(self._topics.values(), 0)
        for place, end in found.items():
            lag[self._topics[place[0]]] += max(0, end - self._stored.get(place, end))
        self.lag = lag

    def close(self) -> None:
        """Commit what was stored, and leave the group at once."""
        self._consumer.close()

    def _records(self) -> Sequence[TopicRecord]:
        return [record for _, _, record in self._hand]

    def _take_in(self, messages: Sequence[Message | None]) -> None:
        failure: KafkaError | None = None
        for message in messages:
            if message is None:
                continue
            place, offset = (message.topic() or "", _number(message.partition())), _number(message.offset())
            error = message.error()
            if error is not None:
                failure = self._noted(error, place, offset) or failure
            # Messages fetched before a partition was given up may still come out of the client's queue.
            elif place in self._ours:
                self._stored.setdefault(place, offset)
                _, written_ms = message.timestamp()
                record = TopicRecord(
                    topic=self._topics[place[0]],
                    key=message.key() or b"",
                    value=message.value() or b"",
                    written_ns=max(written_ms, 0) * MILLISECOND_NS,
                )
                self._hand.append((place, offset, record))
        if failure is not None:
            raise self._connection.unavailable(failure, f"read for {self.group}")

    def _noted(self, error: KafkaError, place: Place, offset: int) -> KafkaError | None:
        """The error if a person has to do something; the client recovers from others by itself."""
        if error.code() == KafkaError._PARTITION_EOF:
            # Markers of transactions have offsets, too: only this tells that nothing else lies behind the last record.
            self._ended[place] = offset
            if not any(held == place for held, _, _ in self._hand):
                self._stored[place] = offset
            return None
        return error if error.code() in MISSING | DENIED or error.fatal() else None

    def _pause(self, paused: bool) -> None:
        if paused != self._paused:
            self._paused = paused
            self._apply_pause(self._ours)

    def _apply_pause(self, places: set[Place]) -> None:
        parts = [TopicPartition(*place) for place in places]
        try:
            (self._consumer.pause if self._paused else self._consumer.resume)(parts)
        except KafkaException as error:
            _logger.info("partitions of %s could not be paused or resumed: %s", self.group, error)

    def _on_assign(self, consumer: Consumer, parts: list[TopicPartition]) -> None:
        consumer.incremental_assign(parts)
        added = {(part.topic, part.partition) for part in parts}
        self._ours |= added
        if self._paused:
            self._apply_pause(added)

    def _on_revoke(self, _consumer: Consumer, parts: list[TopicPartition]) -> None:
        gone = {(part.topic, part.partition) for part in parts}
        self._ours -= gone
        self._hand = [held for held in self._hand if held[0] not in gone]
        for place in gone:
            self._stored.pop(place, None)
            self._ended.pop(place, None)


def _number(value: Any) -> int:
    return -1 if value is None else int(value)
