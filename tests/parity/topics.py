"""The topics of one test: written as ingest writes, read as the writer reads."""

import asyncio
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any, Final

from confluent_kafka import Consumer, TopicPartition

from firstfault_server.adapters.kafka import Connection, KafkaLog, Topic, ensure_topics
from firstfault_server.adapters.kafka.records import decode
from firstfault_server.ports import LogEntry
from firstfault_server.wire.log_record import MILLISECOND_NS, place
from firstfault_server.wire.outputs import TOPICS, incoming
from tests.parity.outcomes import Outcome, outcome
from tests.unit.detect.recordings import Record

INPUT: Final = "firstfault.otlp.v1"
ANY_TIME: Final = {"retention.ms": "-1", "message.timestamp.after.max.ms": str((1 << 63) - 1)}
"""Scripts play in the future, which topics otherwise refuse."""
CHUNK: Final = 500


class Topics:
    """Topics with names of their own, and what has been read from them so far."""

    def __init__(self, address: str, partitions: int, read: Sequence[str] = tuple(TOPICS.values())) -> None:
        """`read`: output topics that somebody wants to know about."""
        self.address, self.prefix = address, f"p{uuid.uuid4().hex[:12]}"
        self._connection = Connection(bootstrap=address)
        self._input = self.name(INPUT)
        wanted = [Topic(name=self._input, partitions=partitions, settings=ANY_TIME)]
        ensure_topics(self._connection, [*wanted, *(Topic(name=self.name(each), partitions=1) for each in TOPICS.values())])
        self._consumer = Consumer(
            {"bootstrap.servers": address, "group.id": self.prefix, "isolation.level": "read_committed", "fetch.wait.max.ms": 50}
        )
        self._consumer.assign([TopicPartition(self.name(each), 0, 0) for each in read])
        self._log = KafkaLog(self._connection, self._input)
        self.found: list[Any] = []

    def name(self, topic: str) -> str:
        """A topic of the service as it is called here."""
        return self.prefix + topic.removeprefix("firstfault")

    def close(self) -> None:
        """Release the clients."""
        self._consumer.close()
        self._log.close()

    def write(self, records: Sequence[Record]) -> None:
        """Return when all are durable."""
        entries = [self.entry(record) for record in records]
        for start in range(0, len(entries), CHUNK):
            asyncio.run(self._log.append(entries[start : start + CHUNK]))

    @staticmethod
    def entry(record: Record) -> LogEntry:
        """A record as ingest has it."""
        owner, _, process = record.key.partition("/")
        received = record.received_ms * MILLISECOND_NS
        return LogEntry(tenant=owner, process=process, signal=record.signal, received_ns=received, body=record.body)

    def written(self) -> list[tuple[str, LogEntry]]:
        """All entries with their positions, in order of receipt."""
        consumer = Consumer({"bootstrap.servers": self.address, "group.id": f"{self.prefix}-input"})
        found: list[tuple[int, int, int, LogEntry]] = []
        try:
            partitions = consumer.list_topics(self._input, 10.0).topics[self._input].partitions
            consumer.assign([TopicPartition(self._input, each, 0) for each in partitions])
            left = {each: consumer.get_watermark_offsets(TopicPartition(self._input, each), 10.0)[1] for each in partitions}
            while any(left.values()):
                message = consumer.poll(10.0)
                assert message is not None and message.error() is None, message
                partition, offset = message.partition(), message.offset()
                assert partition is not None and offset is not None
                left[partition] = max(0, left[partition] - 1)
                entry = decode(message)
                found.append((entry.received_ns, partition, offset, entry))
        finally:
            consumer.close()
        found.sort(key=lambda one: one[:3])
        return [(place(partition, offset), entry) for _, partition, offset, entry in found]

    def read_until(self, enough: Callable[[Outcome], bool], timeout_s: float) -> Outcome:
        """Read what the job commits until it is enough or the time is over; everything so far."""
        deadline = time.monotonic() + timeout_s
        while True:
            so_far = outcome(self.found)
            if enough(so_far) or time.monotonic() > deadline:
                return so_far
            for message in self._consumer.consume(5000, 0.1):
                topic, value = message.topic(), message.value()
                assert message.error() is None and topic is not None and value is not None, message.error()
                self.found += incoming("firstfault" + topic.removeprefix(self.prefix), value)
