"""Durable writes of single records to the topics of detection, by others than detection: what could not be used."""

from collections.abc import Sequence
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from firstfault_server.adapters.kafka.connection import Connection
from firstfault_server.adapters.kafka.producer import LARGEST_RECORD
from firstfault_server.adapters.kafka.topics import topic_name
from firstfault_server.ports import StoreUnavailable
from firstfault_server.wire.outputs import OutputRecord, outgoing

SEND_S: Final = 5.0


class RecordSender:
    """Writes records to their topics. One caller at a time."""

    def __init__(self, connection: Connection, prefix: str) -> None:
        """Connects with the first record."""
        self._connection, self._prefix = connection, prefix
        self._producer: Producer | None = None

    def send(self, records: Sequence[OutputRecord]) -> None:
        """Return when every replica in sync has the records. Raises StoreUnavailable; some may be written then."""
        if not records:
            return
        failures: list[KafkaError] = []

        def delivered(error: KafkaError | None, _message: Message) -> None:
            if error is not None:
                failures.append(error)

        producer = self._client()
        try:
            for each in outgoing(records):
                producer.produce(topic_name(self._prefix, each.topic), key=each.key, value=each.value, on_delivery=delivered)
            left = producer.flush(SEND_S + 1)
        except (KafkaException, BufferError) as error:
            # An idempotent client may refuse everything after some errors.
            self._producer = None
            raise StoreUnavailable(f"Kafka at {self._connection.bootstrap} cannot take records: {error}") from error
        if failures or left:
            self._producer = None
            raise self._connection.unavailable(failures[0] if failures else KafkaError(KafkaError._MSG_TIMED_OUT), "take records")

    def _client(self) -> Producer:
        if self._producer is None:
            self._producer = Producer(
                self._connection.options(
                    enable_idempotence=True,
                    acks="all",
                    compression_type="zstd",
                    delivery_timeout_ms=int(SEND_S * 1000),
                    message_max_bytes=LARGEST_RECORD,
                )
            )
        return self._producer
