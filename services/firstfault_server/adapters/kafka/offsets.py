"""Questions about the ends of partitions: how far they reach, and how new their records are."""

import time
from collections.abc import Iterable, Mapping
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any, Final, TypeAlias

from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from firstfault_server.adapters.kafka.connection import REQUEST_S, Connection
from firstfault_server.adapters.kafka.producer import partitions_of
from firstfault_server.adapters.kafka.reader import MOVING, RETRY_S
from firstfault_server.adapters.kafka.records import MILLISECOND_NS
from firstfault_server.ports import StoreUnavailable

Place: TypeAlias = tuple[str, int]
"""(topic, partition)."""
ASK_S: Final = 3.0
"""For figures that nobody waits for."""


def ends(admin: AdminClient, connection: Connection, places: Iterable[Place]) -> dict[Place, int]:
    """The offset that the next committed record of each will get. Raises StoreUnavailable."""
    return {place: info.offset for place, info in _list(admin, connection, places, OffsetSpec.latest(), ASK_S).items()}


def check_topics(admin: AdminClient, connection: Connection, topics: Iterable[str]) -> None:
    """Raises StoreUnavailable when the cluster is away or lacks one of the topics."""
    try:
        there = admin.list_topics(timeout=ASK_S).topics
    except KafkaException as error:
        raise connection.unavailable(error, "tell its topics") from error
    missing = [topic for topic in topics if topic not in there]
    if missing:
        raise StoreUnavailable(f"Kafka at {connection.bootstrap} lacks {', '.join(missing)}; run `firstfault migrate`")


def newest_ns(admin: AdminClient, connection: Connection, topic: str) -> int:
    """Newest timestamp of the records of a topic, 0 when it has none. Raises StoreUnavailable."""
    places = [(topic, partition) for partition in partitions_of(admin, connection, topic)]
    found = _list(admin, connection, places, OffsetSpec.max_timestamp(), REQUEST_S)
    return max((info.timestamp for info in found.values() if info.offset >= 0), default=0) * MILLISECOND_NS


def _list(admin: AdminClient, connection: Connection, places: Iterable[Place], spec: OffsetSpec, within_s: float) -> Mapping[Place, Any]:
    wanted = {TopicPartition(topic, partition): spec for topic, partition in places}
    if not wanted:
        return {}
    doing = "tell the ends of topics"
    deadline = time.monotonic() + within_s
    while True:
        try:
            answers = admin.list_offsets(wanted, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=within_s)
            return {(each.topic, each.partition): answer.result(within_s + 1) for each, answer in answers.items()}
        except KafkaException as error:
            if error.args[0].code() not in MOVING or time.monotonic() > deadline:
                raise connection.unavailable(error, doing) from error
            time.sleep(RETRY_S)
        except FutureTimeout as error:
            raise StoreUnavailable(f"Kafka at {connection.bootstrap} cannot {doing}: no answer in time") from error
