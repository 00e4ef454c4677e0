"""The topics of the service, and making a cluster have them."""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Final, TypeVar

import msgspec
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from firstfault_server.adapters.kafka.connection import REQUEST_S, Connection
from firstfault_server.adapters.kafka.log import TOPIC
from firstfault_server.adapters.kafka.producer import LARGEST_RECORD
from firstfault_server.wire import outputs

DAY_MS: Final = 86_400_000
PARTITIONS: Final = 12
ResultT = TypeVar("ResultT")


class Topic(msgspec.Struct, kw_only=True, frozen=True):
    """A topic as it should be."""

    name: str
    partitions: int = PARTITIONS
    settings: Mapping[str, str] = {}
    """Settings that are ours to decide; all others are left to the cluster."""


COMMON: Final = {"max.message.bytes": str(LARGEST_RECORD), "compression.type": "producer"}
OUTPUT: Final = COMMON | {"message.timestamp.type": "LogAppendTime"}
"""Of what detection writes: when it was written divides the way of a record into hops; its own times are in the record."""
TOPICS: Final = (
    Topic(name=TOPIC, settings=COMMON | {"retention.ms": str(2 * DAY_MS), "message.timestamp.type": "CreateTime"}),
    Topic(name=outputs.ROLLUPS, settings=OUTPUT | {"retention.ms": str(2 * DAY_MS)}),
    Topic(name=outputs.EVENTS, settings=OUTPUT | {"retention.ms": str(2 * DAY_MS)}),
    Topic(name=outputs.FINDINGS, settings=OUTPUT | {"retention.ms": str(2 * DAY_MS)}),
    # The newest revision of an incident or run is kept for ever: stores can be filled again from here.
    Topic(name=outputs.INCIDENTS, settings=OUTPUT | {"cleanup.policy": "compact"}),
    Topic(name=outputs.RUNS, settings=OUTPUT | {"cleanup.policy": "compact"}),
    Topic(name=outputs.DEAD_LETTERS, partitions=3, settings=OUTPUT | {"retention.ms": str(14 * DAY_MS)}),
)


PREFIX: Final = "firstfault"


def topic_name(prefix: str, topic: str) -> str:
    """The name that one of `TOPICS` has in an installation with this prefix."""
    return prefix + topic.removeprefix(PREFIX)


def topics(prefix: str, partitions: int = PARTITIONS) -> list[Topic]:
    """`TOPICS` of an installation: several can share a cluster. Dead letters are few, and so are their partitions."""
    few = {outputs.DEAD_LETTERS}
    return [
        msgspec.structs.replace(
            topic, name=topic_name(prefix, topic.name), partitions=topic.partitions if topic.name in few else partitions
        )
        for topic in TOPICS
    ]


class Change(msgspec.Struct, kw_only=True, frozen=True):
    """Something that was done to the cluster, or that a person must decide on."""

    topic: str
    what: str
    done: bool = True


def ensure_topics(
    connection: Connection, topics: Sequence[Topic] = TOPICS, *, replicas: int = -1, patience_s: float = REQUEST_S
) -> list[Change]:
    """Create missing topics and set settings that differ; what was changed, [] when all was well. Raises StoreUnavailable.

    The cluster is unavailable when it does not answer within `patience_s` seconds, `REQUEST_S` at most.
    `replicas` -1 leaves their number to the cluster. The number of partitions of a topic that exists is never changed, because
    records of one process would be spread over two partitions: it is reported with `done` false.
    """
    admin = AdminClient(connection.options())
    try:
        there = admin.list_topics(timeout=min(REQUEST_S, patience_s)).topics
        missing = [topic for topic in topics if topic.name not in there]
        changes = _create(connection, admin, missing, replicas)
        for topic in topics:
            if topic.name in there:
                changes += _set_settings(connection, admin, topic)
                found = len(there[topic.name].partitions)
                if found != topic.partitions:
                    changes.append(Change(topic=topic.name, what=f"has {found} partitions, not {topic.partitions}", done=False))
    except KafkaException as error:
        # So that it tells what it has heard.
        admin.poll(0.0)
        raise connection.unavailable(error, "prepare the topics") from error
    return changes


def _create(connection: Connection, admin: AdminClient, missing: Sequence[Topic], replicas: int) -> list[Change]:
    if not missing:
        return []
    wanted = [NewTopic(each.name, each.partitions, replicas, config=dict(each.settings)) for each in missing]
    changes = []
    for name, answer in admin.create_topics(wanted, request_timeout=REQUEST_S).items():
        try:
            answer.result(REQUEST_S)
        except KafkaException as error:
            # Another `migrate` may have been faster.
            if error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
                continue
            raise connection.unavailable(error, f"create {name}") from error
        changes.append(Change(topic=name, what="created"))
    return changes


def _set_settings(connection: Connection, admin: AdminClient, topic: Topic) -> list[Change]:
    found = _answer(admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic.name)], request_timeout=REQUEST_S))
    wrong = {name: value for name, value in topic.settings.items() if found[name].value != value}
    if not wrong:
        return []
    entries = [ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in wrong.items()]
    resource = ConfigResource(ResourceType.TOPIC, topic.name, incremental_configs=entries)
    try:
        _answer(admin.incremental_alter_configs([resource], request_timeout=REQUEST_S))
    except KafkaException as error:
        raise connection.unavailable(error, f"set {', '.join(wrong)} of {topic.name}") from error
    return [Change(topic=topic.name, what=f"{name} was {found[name].value}, is {value}") for name, value in wrong.items()]


def _answer(answers: Mapping[Any, "Future[ResultT]"]) -> Any:
    return next(iter(answers.values())).result(REQUEST_S)
