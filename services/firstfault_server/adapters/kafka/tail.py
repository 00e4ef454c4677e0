"""Reads what is written to a topic from now on, without a group: every reader gets everything, and nothing is remembered."""

import time
from typing import Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from firstfault_server.adapters.kafka.connection import Connection
from firstfault_server.adapters.kafka.offsets import ends
from firstfault_server.adapters.kafka.producer import partitions_of
from firstfault_server.adapters.kafka.records import MILLISECOND_NS
from firstfault_server.adapters.kafka.topics import topic_name
from firstfault_server.wire.incoming import TopicRecord

REFRESH_S: Final = 5.0
"""How soon partitions that were added are read, and a cluster that is away is noticed."""
MOST: Final = 500


class Tail:
    """One caller at a time."""

    def __init__(self, connection: Connection, prefix: str, topic: str) -> None:
        """`topic` as the contract names it. Connects with the first read, or `open`."""
        self._connection, self._topic, self._name = connection, topic, topic_name(prefix, topic)
        self._admin = AdminClient(connection.options())
        self._consumer = Consumer(
            connection.options(
                group_id=f"{prefix}-tail",
                enable_auto_commit=False,
                enable_auto_offset_store=False,
                auto_offset_reset="latest",
                isolation_level="read_committed",
                fetch_wait_max_ms=100,
            )
        )
        self._partitions: set[int] = set()
        self._looked = -REFRESH_S

    def read(self, wait_s: float) -> list[TopicRecord]:
        """What came since the last call; waits for the first record. Raises StoreUnavailable."""
        self._look()
        try:
            first = self._consumer.poll(wait_s)
            messages = [] if first is None else [first, *self._consumer.consume(MOST, timeout=0.0)]
        except KafkaException as error:
            raise self._connection.unavailable(error, f"read {self._name}") from error
        found = []
        for message in messages:
            # The client recovers from what it reports here by itself; `_look` says when the cluster is away.
            if message.error() is None:
                _, written_ms = message.timestamp()
                written_ns = max(written_ms, 0) * MILLISECOND_NS
                found.append(TopicRecord(topic=self._topic, key=message.key() or b"", value=message.value() or b"", written_ns=written_ns))
        return found

    def _look(self) -> None:
        if time.monotonic() < self._looked + REFRESH_S:
            return
        there = set(partitions_of(self._admin, self._connection, self._name))
        added = there - self._partitions
        if not self._partitions:
            # By number: a mere "end" would be wherever the end is once the first fetch is under way.
            starts = ends(self._admin, self._connection, [(self._name, each) for each in added])
            self._consumer.assign([TopicPartition(*place, offset) for place, offset in starts.items()])
        elif added:
            self._consumer.incremental_assign([TopicPartition(self._name, each, OFFSET_BEGINNING) for each in added])
        self._partitions |= added
        self._looked = time.monotonic()

    def open(self) -> None:
        """Stand at the end now, and not at the first read. Raises StoreUnavailable."""
        self._look()

    def close(self) -> None:
        """Release the client."""
        self._consumer.close()
