"""A broker that dies and comes back under those who live on its topics: they say so, lose nothing, and go on by themselves."""

import asyncio
from collections.abc import Sequence

import pytest
from confluent_kafka.admin import AdminClient
from prometheus_client import CollectorRegistry

from deploy.native.servers.kafka import Kafka
from firstfault_server.adapters.kafka import TOPIC, ConsumerLoop, GroupConsumer, KafkaLog, Take
from firstfault_server.adapters.kafka.offsets import newest_ns
from firstfault_server.adapters.kafka.tail import Tail
from firstfault_server.adapters.kafka.topics import topic_name
from firstfault_server.ingest.watching import WatchedLog
from firstfault_server.ports import StoreUnavailable
from firstfault_server.telemetry import ConsumingMetrics
from firstfault_server.wire.incoming import TopicRecord
from firstfault_server.wire.outputs import EVENTS
from tests.contract.logs import clock, entry
from tests.contract.records import event
from tests.integration.distributed.installation import WITHIN_S, make_topics, new_prefix, send, wait_for

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]


def test_a_broker_that_dies_and_comes_back(broker: Kafka) -> None:
    prefix = new_prefix()
    connection = make_topics(broker.address, prefix)
    found: list[str] = []

    def handle(records: Sequence[TopicRecord]) -> None:
        found.extend(content.id for record in records for content in record.contents())

    loop = ConsumerLoop(
        "test", lambda: GroupConsumer(connection, prefix, [EVENTS], "test", Take()), handle, ConsumingMetrics(CollectorRegistry())
    )
    tail = Tail(connection, prefix, EVENTS)
    tail.open()
    log = WatchedLog(KafkaLog(connection, topic_name(prefix, TOPIC), delivery_s=1.0))
    assert log.problem
    asyncio.run(log.append([entry(1), clock(2)]))
    assert not log.problem
    assert newest_ns(AdminClient(connection.options()), connection, topic_name(prefix, TOPIC)) == clock(2).received_ns
    loop.start()
    try:
        send(connection, prefix, [event(1)])
        wait_for(lambda: found == ["e-0001"] and not loop.problem, "all is well")
        broker.kill()
        with pytest.raises(StoreUnavailable):
            asyncio.run(log.append([clock(3)]))
        assert "Kafka at" in log.problem
        wait_for(lambda: "Kafka at" in loop.problem, "the loop says so")
        broker.start()
        wait_for(lambda: not loop.problem, "the loop goes on")
        send(connection, prefix, [event(2)])
        wait_for(lambda: "e-0002" in found, "what came afterwards")
        heard: list[str] = []

        def hears() -> bool:
            heard.extend(content.id for record in tail.read(0.1) for content in record.contents())
            return "e-0002" in heard

        wait_for(hears, "the tail goes on")
        asyncio.run(log.append([clock(4)]))
        assert not log.problem
    finally:
        assert loop.stop(WITHIN_S)
        tail.close()
        log.close()
