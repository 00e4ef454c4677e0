"""The loop of a service that lives on topics: fetch, handle, commit; and wait, with everything kept, while a store is away."""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeAlias

from firstfault_server.adapters.kafka.consumer import GroupConsumer
from firstfault_server.ports import StoreUnavailable
from firstfault_server.wire.incoming import TopicRecord

Handler: TypeAlias = Callable[[Sequence[TopicRecord]], None]
"""Stores what follows from the records; returns when that is durable. Raises StoreUnavailable. Gets the same records again then."""
FETCH_S: Final = 0.5
FIRST_WAIT_S: Final = 0.25
LONGEST_WAIT_S: Final = 10.0
MEASURE_S: Final = 5.0

_logger = logging.getLogger(__name__)


class LoopMetrics(Protocol):
    """What a loop tells of itself; the name is the loop's."""

    def handled(self, loop: str, topic: str, records: int) -> None:
        """Records were handled and will not come again, except after a crash."""

    def waited(self, loop: str, reason: str) -> None:
        """A batch could not be handled and is kept: `store` or `bug`; or nothing could be read: `kafka`."""

    def measured(self, loop: str, topic: str, lag: int) -> None:
        """So many records are still to be handled."""


class ConsumerLoop:
    """Runs a handler over the records of a consumer in a thread of its own."""

    def __init__(self, name: str, consume: Callable[[], GroupConsumer], handle: Handler, metrics: LoopMetrics) -> None:
        """`consume` opens the consumer; it is called in the loop's thread."""
        self.name = name
        self._consume, self._handle, self._metrics = consume, handle, metrics
        self._stopping = threading.Event()
        self._measured = 0.0
        self._kafka_problem = "not connected yet"
        self._store_problem = ""
        self._leads = False
        self._thread = threading.Thread(target=self._run, name=f"consume-{name}", daemon=True)

    @property
    def problem(self) -> str:
        """Why nothing is handled now; empty: all is well."""
        return self._store_problem or self._kafka_problem

    @property
    def leads(self) -> bool:
        """Whether this is the one member of its group that does what must be done once."""
        return self._leads

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self, timeout_s: float) -> bool:
        """Finish the batch under way and leave the group; False when that took too long."""
        self._stopping.set()
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while not self._stopping.is_set():
            consumer = self._consume()
            try:
                while not self._stopping.is_set():
                    self._round(consumer)
            except Exception as error:
                # A client that can do no more is replaced; what it had in hand was not committed and comes again.
                self._metrics.waited(self.name, "bug")
                _logger.exception("%s starts over", self.name)
                self._kafka_problem = f"{type(error).__name__}: {error}"
            finally:
                self._leads = False
                consumer.close()
            self._stopping.wait(FIRST_WAIT_S)
        self._kafka_problem = "ended"

    def _round(self, consumer: GroupConsumer) -> None:
        try:
            records = consumer.fetch(FETCH_S)
            self._leads = consumer.leads
            self._measure(consumer)
            wait_s = FIRST_WAIT_S
            while records and not self._tried(records):
                records = consumer.hold(wait_s, self._stopping)
                self._measure(consumer)
                if self._stopping.is_set():
                    return
                wait_s = min(2 * wait_s, LONGEST_WAIT_S)
        except StoreUnavailable as error:
            self._metrics.waited(self.name, "kafka")
            if not self._kafka_problem:
                _logger.error("%s: %s", self.name, error)
            self._kafka_problem = str(error)
            self._stopping.wait(FIRST_WAIT_S)
            return
        self._store_problem = ""
        consumer.done()
        for topic in {record.topic for record in records}:
            self._metrics.handled(self.name, topic, sum(record.topic == topic for record in records))

    def _tried(self, records: Sequence[TopicRecord]) -> bool:
        try:
            self._handle(records)
        except StoreUnavailable as error:
            self._metrics.waited(self.name, "store")
            if not self._store_problem:
                _logger.error("%s waits, nothing is lost: %s", self.name, error)
            self._store_problem = str(error)
            return False
        except Exception as error:
            # Going on would lose the batch. It waits for a version that can handle it, and readiness says so.
            self._metrics.waited(self.name, "bug")
            if not self._store_problem:
                _logger.exception("%s cannot handle a batch", self.name)
            self._store_problem = f"a batch cannot be handled: {type(error).__name__}: {error}"
            return False
        if self._store_problem:
            _logger.info("%s goes on", self.name)
        return True

    def _measure(self, consumer: GroupConsumer) -> None:
        now = time.monotonic()
        if now < self._measured + MEASURE_S and not self._kafka_problem:
            return
        consumer.measure()
        self._measured = now
        self._kafka_problem = ""
        for topic, lag in consumer.lag.items():
            self._metrics.measured(self.name, topic, lag)
