"""Members of consumer groups on a real broker: nothing is lost between them, whatever happens to them."""

import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer
from prometheus_client import CollectorRegistry

from firstfault_server.adapters.kafka import Connection, ConsumerLoop, GroupConsumer, Take
from firstfault_server.adapters.kafka.topics import topic_name
from firstfault_server.ports import StoreUnavailable
from firstfault_server.telemetry import ConsumingMetrics
from firstfault_server.wire.codec import encode
from firstfault_server.wire.incoming import TopicRecord
from firstfault_server.wire.outputs import EVENTS, RUNS
from tests.contract.records import event
from tests.integration.distributed.installation import NEVER, WITHIN_S, make_topics, new_prefix, send, wait_for

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]
ROOT = Path(__file__).parents[3]


@pytest.fixture
def prefix() -> str:
    """Of topics and groups of this test."""
    return new_prefix()


@pytest.fixture
def connection(kafka_address: str, prefix: str) -> Connection:
    """To a cluster with the topics of this test."""
    return make_topics(kafka_address, prefix, partitions=4)


@contextmanager
def member(connection: Connection, prefix: str, take: Take | None = None, topics: Sequence[str] = (EVENTS,)) -> Iterator[GroupConsumer]:
    consumer = GroupConsumer(connection, prefix, topics, "test", take or Take())
    try:
        yield consumer
    finally:
        consumer.close()


def fill(connection: Connection, prefix: str, numbers: range) -> set[str]:
    """One event of its own run for each number, so that all partitions get some; their ids."""
    events = [event(number, run=f"r-{number}") for number in numbers]
    send(connection, prefix, events)
    return {each.id for each in events}


def ids(records: Sequence[TopicRecord]) -> list[str]:
    return [content.id for record in records for content in record.contents()]


def fetched(consumer: GroupConsumer, done: bool = True) -> list[str]:
    """The next batch; waits for it."""
    deadline = time.monotonic() + WITHIN_S
    while not (found := ids(consumer.fetch(0.2))):
        assert time.monotonic() < deadline, "nothing came"
    if done:
        consumer.done()
    return found


def drain(consumer: GroupConsumer, wanted: set[str]) -> list[str]:
    found: list[str] = []
    while not wanted <= set(found):
        found += fetched(consumer)
    return found


def test_what_was_done_is_not_read_again_and_the_rest_is(connection: Connection, prefix: str) -> None:
    wanted = fill(connection, prefix, range(20))
    with member(connection, prefix, Take(records=8)) as first:
        stored = set(fetched(first))
        in_hand = set(fetched(first, done=False))
        assert set(fetched(first, done=False)) == in_hand, "the same batch until it is done"
    with member(connection, prefix) as second:
        assert sorted(drain(second, wanted - stored)) == sorted(wanted - stored)


def test_lag_ends_at_nothing_even_behind_transactions(connection: Connection, prefix: str) -> None:
    producer = Producer({"bootstrap.servers": connection.bootstrap, "transactional.id": prefix})
    producer.init_transactions(30)
    for number, commit in ((1, True), (2, False), (3, True)):
        producer.begin_transaction()
        producer.produce(topic_name(prefix, EVENTS), value=encode(event(number)), partition=0)
        producer.flush(30)
        (producer.commit_transaction if commit else producer.abort_transaction)(30)
    with member(connection, prefix) as consumer:
        assert drain(consumer, {"e-0001", "e-0003"}) == ["e-0001", "e-0003"]

        def settled() -> bool:
            consumer.fetch(0.1)
            consumer.measure()
            return consumer.lag[EVENTS] == 0

        wait_for(settled, "no lag")
        fill(connection, prefix, range(10, 15))
        consumer.measure()
        assert consumer.lag[EVENTS] == 5


def test_partitions_move_between_members_without_loss(connection: Connection, prefix: str) -> None:
    wanted = fill(connection, prefix, range(100))
    found: list[str] = []
    lock = threading.Lock()
    metrics = ConsumingMetrics(CollectorRegistry())

    def handle(records: Sequence[TopicRecord]) -> None:
        with lock:
            found.extend(ids(records))

    def loop() -> ConsumerLoop:
        started = ConsumerLoop("test", lambda: GroupConsumer(connection, prefix, [EVENTS], "test", Take(records=10)), handle, metrics)
        started.start()
        return started

    with ExitStack() as stack:
        first = loop()
        stack.callback(first.stop, WITHIN_S)
        wait_for(lambda: len(set(found)) > 0, "the first member reads")
        second = loop()
        stack.callback(second.stop, WITHIN_S)
        wanted |= fill(connection, prefix, range(100, 200))
        assert first.stop(WITHIN_S), "a member leaves at once"
        wanted |= fill(connection, prefix, range(200, 300))
        wait_for(lambda: wanted <= set(found), "everything was handled")
        assert not second.problem


def test_what_a_killed_member_had_in_hand_comes_again(connection: Connection, prefix: str, tmp_path: Path) -> None:
    wanted = fill(connection, prefix, range(200))
    handled = tmp_path / "handled"

    def count() -> int:
        return len(handled.read_text().splitlines()) if handled.exists() else 0

    command = [sys.executable, "-m", "tests.integration.kafka.consumer_process", connection.bootstrap, prefix, str(handled)]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE)
    try:
        wait_for(lambda: count() >= 40, "a part is handled")
    finally:
        process.kill()
        process.communicate()
    with member(connection, prefix) as last:
        before = set(handled.read_text().split())
        rest = drain(last, wanted - before)
        assert before | set(rest) == wanted


def test_a_member_that_waits_for_its_store_keeps_its_batch_and_its_place(connection: Connection, prefix: str) -> None:
    fill(connection, prefix, range(10))
    with member(connection, prefix, Take(records=4)) as consumer:
        batch = fetched(consumer, done=False)
        fill(connection, prefix, range(10, 20))
        assert ids(consumer.hold(1.0, NEVER)) == batch
        consumer.done()
        rest = drain(consumer, {f"e-{number:04}" for number in range(20)} - set(batch))
        assert not set(rest) & set(batch)


def test_what_moves_away_leaves_the_hand(connection: Connection, prefix: str) -> None:
    wanted = fill(connection, prefix, range(40))
    with member(connection, prefix) as first:
        batch = fetched(first, done=False)
        with member(connection, prefix) as second:
            kept: list[str] = []
            taken: list[str] = []

            def shared() -> bool:
                kept[:] = ids(first.hold(0.1, NEVER))
                taken.extend(ids(second.fetch(0.1)))
                second.done()
                return 0 < len(kept) < len(batch) and wanted <= set(kept) | set(taken)

            wait_for(shared, "the second member has what the first gave up")
            assert not set(kept) & set(taken)


def test_a_missing_topic_is_named_and_taken_up_once_it_is_there(kafka_address: str, prefix: str) -> None:
    connection = Connection(bootstrap=kafka_address)
    found: list[str] = []
    loop = ConsumerLoop(
        "test",
        lambda: GroupConsumer(connection, prefix, [EVENTS, RUNS], "test", Take()),
        lambda records: found.extend(ids(records)),
        ConsumingMetrics(CollectorRegistry()),
    )
    loop.start()
    try:
        wait_for(lambda: "migrate" in loop.problem, "the problem is named")
        make_topics(kafka_address, prefix)
        wanted = fill(connection, prefix, range(3))
        wait_for(lambda: wanted <= set(found) and not loop.problem, "it goes on")
    finally:
        assert loop.stop(WITHIN_S)


def test_a_store_that_is_away_costs_nothing(connection: Connection, prefix: str) -> None:
    wanted = fill(connection, prefix, range(30))
    answers: list[Exception | None] = [StoreUnavailable("the store is away"), KeyError("a bug"), None]
    problems: list[str] = []
    found: list[str] = []
    registry = CollectorRegistry()

    def handle(records: Sequence[TopicRecord]) -> None:
        problems.append(loop.problem)
        answer = answers.pop(0) if answers else None
        if answer is not None:
            raise answer
        found.extend(ids(records))

    loop = ConsumerLoop(
        "test", lambda: GroupConsumer(connection, prefix, [EVENTS], "test", Take(records=30)), handle, ConsumingMetrics(registry)
    )
    loop.start()
    try:
        wait_for(lambda: wanted <= set(found), "everything was handled")
        assert len(found) == len(wanted)
        assert problems[1:3] == ["the store is away", "a batch cannot be handled: KeyError: 'a bug'"]
        wait_for(lambda: not loop.problem, "it is well again")
        assert registry.get_sample_value("firstfault_consumer_waits_total", {"loop": "test", "reason": "store"}) == 1
        assert registry.get_sample_value("firstfault_consumer_waits_total", {"loop": "test", "reason": "bug"}) == 1
    finally:
        assert loop.stop(WITHIN_S)
