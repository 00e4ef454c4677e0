"""No broker, or one that dies: senders are told clearly, and nothing that was acknowledged is lost."""

import asyncio
import threading

import pytest

from deploy.native.servers.kafka import Kafka
from deploy.native.servers.process import free_ports
from firstfault_server.adapters.kafka import Connection, KafkaLog, Topic, ensure_topics
from firstfault_server.ports import StoreUnavailable
from tests.contract.logs import clock, entry, everything, put

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]


def test_a_cluster_that_is_away_is_named_in_time() -> None:
    (port,) = free_ports(1)
    connection = Connection(bootstrap=f"127.0.0.1:{port}")
    log = KafkaLog(connection, "t", delivery_s=0.5)
    with pytest.raises(StoreUnavailable, match=f"Kafka at 127.0.0.1:{port} cannot append to t: no broker"):
        put(log, entry(1))
    log.close()


@pytest.mark.soak
def test_what_was_acknowledged_survives_a_killed_broker(broker: Kafka) -> None:
    connection = Connection(bootstrap=broker.address)
    ensure_topics(connection, [Topic(name="t", partitions=3, settings={"retention.ms": "-1"})])
    log = KafkaLog(connection, "t", delivery_s=5.0)
    acknowledged: list[int] = []
    refused: list[str] = []
    stopping = threading.Event()

    async def send(first: int) -> None:
        number = first
        while not stopping.is_set():
            try:
                await log.append([entry(number, process=f"p-{first}"), clock(number)])
                acknowledged.append(number)
            except StoreUnavailable as error:
                refused.append(str(error))
            number += 10
            await asyncio.sleep(0.002)

    async def load() -> None:
        await asyncio.gather(*(send(first) for first in range(10)))

    sender = threading.Thread(target=asyncio.run, args=(load(),))
    sender.start()
    for kill in range(3):
        reached = len(acknowledged) + 300
        while len(acknowledged) < reached:
            assert sender.is_alive(), f"the load ended before kill {kill}"
            stopping.wait(0.01)
        broker.kill()
        broker.start()
    stopping.set()
    sender.join()
    found = everything(log)
    per_process = {first: [each.received_ns for _, each in found if each.process == f"p-{first}"] for first in range(10)}
    durable = {received_ns for times in per_process.values() for received_ns in times}
    assert {entry(number).received_ns for number in acknowledged} <= durable
    for times in per_process.values():
        assert times == sorted(set(times)), "twice, or out of order"
    assert all("Kafka at" in reason for reason in refused)
    log.close()
