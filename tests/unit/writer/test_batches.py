"""Batches of topics: each kind into its store, once; what cannot be used becomes a dead letter and costs no neighbour."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from firstfault_server import ports
from firstfault_server.adapters import memory
from firstfault_server.core import model
from firstfault_server.wire import outputs
from firstfault_server.wire.incoming import TopicRecord
from firstfault_server.writer.batches import BatchWriter, Target, aggregate_targets, context_targets
from firstfault_server.writer.storing import BROKEN, store_each
from firstfault_server.writer.telemetry import WriterMetrics
from tests.contract.records import NOW_NS, FixedClock, event, incident, rollup, run

LOG = structlog.wrap_logger(structlog.PrintLogger(), wrapper_class=structlog.make_filtering_bound_logger(50))
SECOND_NS = model.SECOND_NS


def letter(number: int) -> model.DeadLetter:
    return model.DeadLetter(id=f"d-{number}", tenant="acme", received_ns=NOW_NS, reason="why", data=b"\0\xff")


def records(*contents: outputs.OutputRecord) -> list[TopicRecord]:
    """As detection would have written them two seconds ago."""
    sent = outputs.outgoing(contents)
    return [TopicRecord(topic=each.topic, key=each.key, value=each.value, written_ns=NOW_NS - 2 * SECOND_NS) for each in sent]


class Desk:
    """A writer over stores in memory."""

    def __init__(self) -> None:
        self.clock = FixedClock()
        self.stores = memory.open_stores(self.clock)
        self.registry = CollectorRegistry()
        self.kept: list[model.DeadLetter] = []
        self.targets = {**context_targets(self.stores.context, self.stores.incidents), **aggregate_targets(self.stores.aggregates)}
        self.writer = BatchWriter(self.targets, self.kept.extend, self.clock, WriterMetrics(self.registry), LOG)

    def refusing(self, topic: str, bad: Callable[[Any], bool]) -> None:
        """From now on the store of a topic refuses batches with a bad record."""
        target = self.targets[topic]

        def write(items: Sequence[Any]) -> None:
            if any(bad(item) for item in items):
                raise ValueError("not this one")
            target.write(items)

        self.targets[topic] = Target(target.kind, write)

    def count(self, name: str, **labels: str) -> float:
        return self.registry.get_sample_value(name, labels) or 0.0


@pytest.fixture
def desk() -> Desk:
    """Fresh for each test."""
    return Desk()


def test_each_kind_goes_to_its_store_and_twice_is_once(desk: Desk) -> None:
    batch = records(event(1, received_ns=NOW_NS - 3 * SECOND_NS), incident(1), run(1), letter(1), rollup(0), rollup(1))
    for _ in range(2):
        desk.writer.handle(batch)
    query = ports.ListQuery(tenant="acme")
    assert [each.id for each in desk.stores.context.events(query).items] == ["e-0001"]
    assert desk.stores.incidents.incident("acme", "i-0001").title == "Failure number 1"
    assert desk.stores.incidents.run("acme", "r-1").run == "r-1"
    assert desk.stores.context.dead_letters(query).items == [letter(1)]
    series = desk.stores.aggregates.series(ports.SeriesQuery(tenant="acme", run="r-1", metric="train.loss"))
    assert sum(point.count for points in series.values() for point in points) == 2
    assert desk.kept == []


def test_hops_are_measured(desk: Desk) -> None:
    desk.writer.handle(records(event(1, received_ns=NOW_NS - 3 * SECOND_NS)))
    hop = {"kind": "event"}
    assert desk.count("firstfault_hop_seconds_sum", hop="receipt_to_detected", **hop) == 1
    assert desk.count("firstfault_hop_seconds_sum", hop="detected_to_stored", **hop) == 2
    assert desk.count("firstfault_hop_seconds_sum", hop="receipt_to_stored", **hop) == 3
    assert desk.count("firstfault_writer_stored_total", **hop) == 1


def test_hops_of_incidents_are_measured_and_the_whole_way_of_first_revisions(desk: Desk) -> None:
    first, second = (NOW_NS - seconds * SECOND_NS for seconds in (7, 4))
    desk.writer.handle(
        records(incident(1, opened_at=first, updated_at=second), incident(1, revision=2, opened_at=first, updated_at=second))
    )
    hop = {"kind": "incident"}
    assert desk.count("firstfault_hop_seconds_count", hop="receipt_to_detected", **hop) == 2
    assert desk.count("firstfault_hop_seconds_sum", hop="receipt_to_detected", **hop) == 4
    assert desk.count("firstfault_hop_seconds_sum", hop="detected_to_stored", **hop) == 4
    assert desk.count("firstfault_hop_seconds_count", hop="receipt_to_stored", **hop) == 1
    assert desk.count("firstfault_hop_seconds_sum", hop="receipt_to_stored", **hop) == 7


def test_what_cannot_be_read_becomes_a_dead_letter_and_its_neighbours_are_stored(desk: Desk) -> None:
    garbage = TopicRecord(topic=outputs.INCIDENTS, key=b"acme/i-1", value=b"\xff\xff", written_ns=NOW_NS)
    desk.writer.handle([*records(event(1)), garbage, *records(event(2))])
    assert len(desk.stores.context.events(ports.ListQuery(tenant="acme")).items) == 2
    (kept,) = desk.kept
    assert (kept.tenant, kept.data, kept.signal) == ("acme", b"\xff\xff", outputs.INCIDENTS)
    assert "cannot be read" in kept.reason
    assert desk.count("firstfault_writer_dead_letters_total", reason="unreadable") == 1
    desk.writer.handle([garbage])
    assert desk.kept[1].id == kept.id, "the same letter each time"


def test_what_a_store_refuses_becomes_a_dead_letter(desk: Desk) -> None:
    desk.refusing(outputs.EVENTS, lambda item: item.id == "e-0003")
    desk.writer.handle(records(*[event(number) for number in range(1, 8)]))
    assert len(desk.stores.context.events(ports.ListQuery(tenant="acme")).items) == 6
    assert [kept.reason for kept in desk.kept] == ["a record of firstfault.events.v1 cannot be stored: ValueError: not this one"]
    assert desk.count("firstfault_writer_dead_letters_total", reason="refused") == 1


def test_a_dead_letter_that_is_refused_does_not_come_back(desk: Desk) -> None:
    desk.refusing(outputs.DEAD_LETTERS, lambda _: True)
    desk.writer.handle(records(letter(1)))
    assert desk.kept == []


@given(st.lists(st.booleans(), max_size=40))
def test_exactly_the_bad_ones_are_refused(bad: list[bool]) -> None:
    stored: list[int] = []

    def write(items: Sequence[int]) -> None:
        if any(bad[item] for item in items):
            raise ValueError("bad")
        stored.extend(items)

    items = list(range(len(bad)))
    if all(bad) and len(bad) >= BROKEN:
        with pytest.raises(ports.StoreUnavailable, match="refuses everything"):
            store_each(write, items)
    else:
        assert [each.place for each in store_each(write, items)] == [item for item in items if bad[item]]
        assert stored == [item for item in items if not bad[item]]


def test_a_store_that_is_away_refuses_nothing() -> None:
    def write(_items: Sequence[Any]) -> None:
        raise ports.StoreUnavailable("away")

    with pytest.raises(ports.StoreUnavailable, match="away"):
        store_each(write, [1, 2])


ADDED_FIELD = b"\xfa\x3e\x05later"
"""Field 1007 of a message, text: one that only a later version knows."""
KINDS: list[Callable[[int], outputs.OutputRecord]] = [event, incident, run, letter, rollup]


@pytest.mark.parametrize("make", KINDS)
def test_records_of_a_later_version_are_read_by_this_one(desk: Desk, make: Callable[[int], outputs.OutputRecord]) -> None:
    (known,) = records(make(1))
    later = TopicRecord(topic=known.topic, key=known.key, value=known.value + ADDED_FIELD, written_ns=known.written_ns)
    assert later.contents() == known.contents() == [make(1)]
    desk.writer.handle([later])
    assert desk.kept == []
