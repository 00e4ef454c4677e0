"""What the producer does when the client under it gives up. The client is a stand-in."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from firstfault_server.adapters.kafka import Connection, producer
from firstfault_server.ports import StoreUnavailable
from tests.contract.logs import entry


class Client:
    """Acknowledges at once; `failure` is raised instead when set."""

    made: list["Client"]

    def __init__(self, options: dict[str, Any]) -> None:
        self.options, self.failure = options, None if self.made else KafkaException(KafkaError(KafkaError._FATAL, fatal=True))
        self.waiting: list[Callable[[], None]] = []
        self.polled = threading.Event()
        self.made.append(self)

    def produce(self, topic: str, *, on_delivery: Callable[[Any, Any], None], **fields: Any) -> None:
        if self.failure is not None:
            raise self.failure
        self.waiting.append(lambda: on_delivery(None, None))
        self.polled.set()

    def poll(self, timeout_s: float) -> int:
        self.polled.wait(timeout_s)
        self.polled.clear()
        while self.waiting:
            self.waiting.pop(0)()
        return 0

    def flush(self, timeout_s: float) -> int:
        self.poll(0)
        return 0

    def purge(self) -> None:
        """Nothing waits."""


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Iterator[producer.LogProducer]:
    """A producer whose first client is beyond recovery."""
    monkeypatch.setattr(Client, "made", [], raising=False)
    monkeypatch.setattr(producer, "Producer", Client)
    opened = producer.LogProducer(Connection(bootstrap="nowhere:1"), "t")
    yield opened
    opened.close()


def test_a_client_that_cannot_recover_is_replaced(log: producer.LogProducer) -> None:
    refused = 0

    async def until_taken() -> None:
        nonlocal refused
        while True:
            try:
                return await log.append([entry(1)])
            except StoreUnavailable:
                refused += 1
                await asyncio.sleep(0.01)

    asyncio.run(asyncio.wait_for(until_taken(), 30.0))
    assert refused > 0
    assert log.counts.replaced == 1
    assert log.counts.acknowledged == 1
    assert len(Client.made) == 2


def test_records_are_durable_before_they_are_acknowledged(log: producer.LogProducer) -> None:
    options = Client.made[0].options
    assert options["acks"] == "all"
    assert options["enable.idempotence"] is True
