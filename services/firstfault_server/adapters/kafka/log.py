"""`KafkaLog`: the `Log` port over one topic of a Kafka cluster."""

from collections.abc import Sequence
from typing import Final

from firstfault_server.adapters.kafka.connection import Connection
from firstfault_server.adapters.kafka.cursor import Cursor
from firstfault_server.adapters.kafka.producer import DELIVERY_S, LogProducer, ProducerCounts
from firstfault_server.adapters.kafka.reader import LogReader, ReaderCounts
from firstfault_server.ports import LogEntry

TOPIC: Final = "firstfault.otlp.v1"


class KafkaLog:
    """The input log of the distributed service.

    Order holds within one process, whose records share a partition; a position stands for all partitions. A clock record is written
    into every partition, so a reader sees it once for each. Entries of one append may become durable without the others.
    """

    def __init__(self, connection: Connection, topic: str = TOPIC, *, delivery_s: float = DELIVERY_S) -> None:
        """Opens no connection that could fail; a cluster that is away shows in the first call."""
        self._connection, self._topic, self._delivery_s = connection, topic, delivery_s
        self._producer = LogProducer(connection, topic, delivery_s=delivery_s)
        self._reader = LogReader(connection, topic)

    @property
    def counts(self) -> tuple[ProducerCounts, ReaderCounts]:
        """What happened on the writing and the reading side."""
        return self._producer.counts, self._reader.counts

    async def append(self, entries: Sequence[LogEntry]) -> None:
        """Return when every replica in sync has the entries. Raises StoreUnavailable; then some may be durable."""
        await self._producer.append(entries)

    def read(self, after: str | None, limit_bytes: int) -> list[tuple[str, LogEntry]]:
        """Entries after a position (None: from the oldest kept), at most about `limit_bytes`; [] when there are none yet."""
        return self._reader.read(after, limit_bytes)

    def wait(self, after: str | None, timeout_s: float) -> bool:
        """Block until something lies after the position; False on time-out or when the log was closed."""
        return self._reader.wait(after, timeout_s)

    def prune(self, before: str) -> None:
        """Forget entries up to and including a position, in every partition it speaks of."""
        self._reader.forget(Cursor.parse(before))

    def close(self) -> None:
        """Flush and release; appends after it raise StoreUnavailable."""
        self._producer.close()
        self._reader.close()
