"""What lies in the topic: other readers (the detection job) depend on keys, headers, timestamps and partitions."""

from collections.abc import Iterator

import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, Consumer, Message, Producer, TopicPartition

from firstfault_server.adapters.kafka import Connection, KafkaLog
from firstfault_server.ports import StoreUnavailable
from tests.contract.logs import NOW_NS, clock, entry, everything, kafka_topic, put

PARTITIONS = 4
pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]


@pytest.fixture
def topic(kafka_address: str) -> str:
    """An empty topic."""
    return kafka_topic(kafka_address, PARTITIONS)


@pytest.fixture
def log(kafka_address: str, topic: str) -> Iterator[KafkaLog]:
    """The log in it."""
    opened = KafkaLog(Connection(bootstrap=kafka_address), topic)
    yield opened
    opened.close()


def records(address: str, topic: str, count: int) -> list[Message]:
    """The first records of a topic as any consumer finds them."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": "test", "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(topic, each, 0) for each in range(PARTITIONS)])
    found: list[Message] = []
    try:
        while len(found) < count:
            message = consumer.poll(30.0)
            assert message is not None, f"only {len(found)} of {count} records"
            assert message.error() is None, message.error()
            found.append(message)
    finally:
        consumer.close()
    return found


def test_a_record_has_key_headers_body_and_receive_time(kafka_address: str, topic: str, log: KafkaLog) -> None:
    put(log, entry(1, process="p-7", body=b"otlp"))
    (found,) = records(kafka_address, topic, 1)
    assert found.key() == b"acme/p-7"
    assert found.value() == b"otlp"
    assert found.headers() == [("signal", b"logs"), ("tenant", b"acme")]
    assert found.timestamp() == (TIMESTAMP_CREATE_TIME, NOW_NS // 1_000_000 + 1)


def test_processes_keep_to_one_partition_each_and_use_all(kafka_address: str, topic: str, log: KafkaLog) -> None:
    put(log, *(entry(n, process=f"p-{n % 40}") for n in range(120)))
    places: dict[bytes | None, set[int | None]] = {}
    for each in records(kafka_address, topic, 120):
        places.setdefault(each.key(), set()).add(each.partition())
    assert {len(partitions) for partitions in places.values()} == {1}
    assert set().union(*places.values()) == set(range(PARTITIONS))


def test_a_clock_record_has_no_key_no_tenant_and_no_body(kafka_address: str, topic: str, log: KafkaLog) -> None:
    put(log, clock(3))
    found = records(kafka_address, topic, PARTITIONS)
    assert {each.partition() for each in found} == set(range(PARTITIONS))
    for each in found:
        assert (each.key(), each.value() or b"", each.headers()) == (None, b"", [("signal", b"clock")])
        assert each.timestamp()[1] == NOW_NS // 1_000_000 + 3


@pytest.mark.parametrize(
    ("key", "headers"),
    [
        (b"acme/p", []),
        (b"acme/p", [("signal", b"gossip"), ("tenant", b"acme")]),
        (b"acme/p", [("signal", b"logs"), ("tenant", b"other")]),
        (b"\xff/p", [("signal", b"logs"), ("tenant", b"\xff")]),
        (None, [("signal", b"logs"), ("tenant", b"acme")]),
    ],
)
def test_a_record_that_ingest_did_not_write_costs_only_itself(
    kafka_address: str, topic: str, log: KafkaLog, key: bytes | None, headers: list[tuple[str, bytes | str | None]]
) -> None:
    stranger = Producer({"bootstrap.servers": kafka_address})
    stranger.produce(topic, key=key, value=b"?", headers=headers, partition=0)
    assert stranger.flush(30.0) == 0
    assert log.read(None, 1 << 20) == []
    put(log, *(entry(n, process=f"p-{n}") for n in range(20)))
    found = everything(log)
    assert sorted(each.received_ns for _, each in found) == [entry(n).received_ns for n in range(20)]
    assert log.counts[1].foreign == 1
    assert log.read(found[-1][0], 1 << 20) == []


def test_records_of_an_open_or_aborted_transaction_are_not_seen_and_do_not_stop_the_reader(
    kafka_address: str, topic: str, log: KafkaLog
) -> None:
    producer = Producer({"bootstrap.servers": kafka_address, "transactional.id": topic})
    producer.init_transactions(30.0)
    producer.begin_transaction()
    producer.produce(topic, key=b"acme/p", value=b"?", headers=[("signal", b"logs"), ("tenant", b"acme")], partition=0)
    producer.flush(30.0)
    assert log.read(None, 1 << 20) == []
    producer.abort_transaction(30.0)
    assert log.read(None, 1 << 20) == []
    put(log, entry(1))
    found = everything(log)
    assert [each for _, each in found] == [entry(1)]
    assert not log.wait(found[-1][0], 0.0)


def test_a_topic_that_is_missing_is_named_with_what_to_do(kafka_address: str) -> None:
    log = KafkaLog(Connection(bootstrap=kafka_address), "nobody.made.this", delivery_s=5.0)
    with pytest.raises(StoreUnavailable, match=r"nobody\.made\.this.*firstfault migrate"):
        log.read(None, 1 << 20)
    with pytest.raises(StoreUnavailable, match=r"nobody\.made\.this.*firstfault migrate"):
        put(log, clock(1))
    with pytest.raises(StoreUnavailable, match=r"nobody\.made\.this.*firstfault migrate"):
        put(log, entry(1))
    log.close()
