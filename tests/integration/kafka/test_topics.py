"""Making a cluster have the topics of the service."""

import uuid

import msgspec
import pytest
from confluent_kafka.admin import AdminClient

from firstfault_server.adapters.kafka import TOPICS, Connection, Topic, ensure_topics
from firstfault_server.ports import StoreUnavailable

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]


@pytest.fixture
def topics() -> list[Topic]:
    """The topics of the service under names of their own."""
    mark = uuid.uuid4().hex
    return [msgspec.structs.replace(each, name=f"{each.name}.{mark}", partitions=2) for each in TOPICS]


def test_topics_are_created_once_with_their_settings(kafka_address: str, topics: list[Topic]) -> None:
    connection = Connection(bootstrap=kafka_address)
    assert {(each.topic, each.what) for each in ensure_topics(connection, topics)} == {(each.name, "created") for each in topics}
    assert ensure_topics(connection, topics) == []
    there = AdminClient({"bootstrap.servers": kafka_address}).list_topics(timeout=30.0).topics
    assert {len(there[each.name].partitions) for each in topics} == {2}


def test_a_setting_that_differs_is_set_and_others_are_left(kafka_address: str, topics: list[Topic]) -> None:
    connection = Connection(bootstrap=kafka_address)
    topic = topics[0]
    ensure_topics(connection, [msgspec.structs.replace(topic, settings={**topic.settings, "retention.ms": "1000", "segment.ms": "5000"})])
    (change,) = ensure_topics(connection, [topic])
    assert change.what == f"retention.ms was 1000, is {topic.settings['retention.ms']}"
    # Not ours to decide, so it is as it was.
    assert ensure_topics(connection, [msgspec.structs.replace(topic, settings={"segment.ms": "5000"})]) == []


def test_another_number_of_partitions_is_reported_and_left(kafka_address: str, topics: list[Topic]) -> None:
    connection = Connection(bootstrap=kafka_address)
    ensure_topics(connection, topics[:1])
    (change,) = ensure_topics(connection, [msgspec.structs.replace(topics[0], partitions=5)])
    assert (change.what, change.done) == ("has 2 partitions, not 5", False)


def test_a_setting_that_the_cluster_refuses_is_named(kafka_address: str, topics: list[Topic]) -> None:
    with pytest.raises(StoreUnavailable, match=r"cannot create .*"):
        ensure_topics(Connection(bootstrap=kafka_address), [msgspec.structs.replace(topics[0], settings={"retention.ms": "soon"})])
