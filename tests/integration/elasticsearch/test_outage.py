"""A node that dies: what was written stays, and what is sent again is there once."""

import itertools
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from deploy.native.servers.elasticsearch import Elasticsearch
from firstfault_server.adapters.elasticsearch import Connection, ElasticsearchStores, ensure_templates, open_stores
from firstfault_server.adapters.elasticsearch.templates import FAMILIES
from firstfault_server.core.search import Term
from firstfault_server.ports import Audit, ListQuery, StoreUnavailable, walk
from tests.contract.records import NOW_NS, FixedClock, audit, delivery, event, incident, message

pytestmark = [pytest.mark.integration, pytest.mark.soak]


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Elasticsearch]:
    """A node of this test alone."""
    started = Elasticsearch(tmp_path / "elasticsearch")
    started.start()
    yield started
    started.stop()


def test_events_survive_a_killed_node_and_are_there_once(node: Elasticsearch) -> None:
    connection = Connection(url=node.address)
    ensure_templates(connection, replicas=0)
    stores = open_stores(connection, FixedClock(), "one")
    store = stores.context
    stopping = threading.Event()
    written: list[int] = []
    outages: list[str] = []

    def write() -> None:
        number = 0
        while not stopping.is_set():
            batch = [event(n) for n in range(number, number + 20)]
            while True:
                try:
                    store.write_events(batch)
                    break
                except StoreUnavailable as error:
                    outages.append(str(error))
                    stopping.wait(0.05)
            written.extend(range(number, number + 20))
            number += 20

    writer = threading.Thread(target=write)
    writer.start()
    for _ in range(3):
        reached = len(written) + 400
        while len(written) < reached:
            assert writer.is_alive()
            stopping.wait(0.01)
        node.kill()
        node.start()
    stopping.set()
    writer.join()
    with connection.client() as client:
        client.indices.refresh(index=f"{connection.prefix}-events")
        assert client.count(index=f"{connection.prefix}-events")["count"] == len(written)
    seen = [item.id for item in walk(store.events, ListQuery(tenant="acme", limit=200))]
    assert sorted(seen) == sorted(f"e-{number:04}" for number in written)
    assert outages
    assert all("Elasticsearch at" in reason for reason in outages)
    stores.close()


def patiently(write: Callable[[], None], stopping: threading.Event, outages: list[str]) -> None:
    """Do it until it is done, as every writer does."""
    while True:
        try:
            return write()
        except StoreUnavailable as error:
            outages.append(str(error))
            stopping.wait(0.05)


def test_incidents_marks_and_messages_survive_a_killed_node(node: Elasticsearch) -> None:
    connection = Connection(url=node.address)
    ensure_templates(connection, replicas=0)
    detection, people, alerter = (open_stores(connection, FixedClock(), name) for name in ("detection", "people", "alerter"))
    stopping = threading.Event()
    outages: list[str] = []
    revisions: dict[str, int] = {}
    acknowledged: dict[str, int] = {}
    sent: Counter[str] = Counter()

    def detect() -> None:
        for number in itertools.count():
            if stopping.is_set():
                return
            name, revision = f"i-{number % 20:04}", number // 20 + 1
            batch = [incident(number % 20, revision=revision, title=f"revision {revision}")]
            patiently(lambda batch=batch: detection.incidents.write_incidents(batch), stopping, outages)  # type: ignore[misc]
            revisions[name] = revision
            told = [message(revision, id=f"{name}.{revision}", incident=name)]
            patiently(lambda told=told: detection.outbox.add(told), stopping, outages)  # type: ignore[misc]

    def mark() -> None:
        for number in itertools.count():
            if stopping.is_set():
                return
            name = f"i-{number % 20:04}"

            def write(name: str = name, number: int = number) -> None:
                stored = people.triage.triage("acme", name)
                entry = audit(number, id=f"{name}-{stored.version}", subject=name)
                acknowledged[name] = people.triage.put_triage(
                    msgspec.structs.replace(stored, assignee=f"person {stored.version + 1}"), entry
                ).version

            patiently(write, stopping, outages)

    def deliver() -> None:
        while not stopping.is_set():

            def work() -> None:
                for each in alerter.outbox.due(NOW_NS, 10):
                    sent[each.id] += 1
                    each.state = "delivered"
                    alerter.outbox.record(each, delivery(1, each, delivered=True))

            patiently(work, stopping, outages)

    workers = [threading.Thread(target=work) for work in (detect, mark, deliver)]
    for worker in workers:
        worker.start()
    for _ in range(3):
        reached = (sum(revisions.values()) + 60, sum(acknowledged.values()) + 20, len(sent) + 20)
        while any(
            now < wanted for now, wanted in zip((sum(revisions.values()), sum(acknowledged.values()), len(sent)), reached, strict=True)
        ):
            assert all(worker.is_alive() for worker in workers)
            stopping.wait(0.01)
        node.kill()
        node.start()
    stopping.set()
    for worker in workers:
        worker.join()
    assert outages
    people.triage.repair()
    people.cluster.refresh(*FAMILIES)
    listed = {item.id: (item, triage) for item, triage in people.incidents.incidents(ListQuery(tenant="acme", limit=50), NOW_NS).items}
    for name, revision in revisions.items():
        assert listed[name][0].revision >= revision
        assert [each.revision for each in people.incidents.revisions("acme", name)] == list(range(1, listed[name][0].revision + 1))
    entries = {entry.id for entry in trail(people)}
    for name, version in acknowledged.items():
        stored = people.triage.triage("acme", name)
        assert stored.version >= version
        assert {f"{name}-{number}" for number in range(stored.version)} <= entries
        found = people.incidents.incidents(
            ListQuery(tenant="acme", where=Term(key="assignee", value=f"person {stored.version}"), limit=50), NOW_NS
        )
        assert name in {item.id for item, _ in found.items}
    told = [each for name in revisions for each in people.outbox.messages("acme", name)]
    assert {each.id for each in told} >= {f"{name}.{number}" for name, last in revisions.items() for number in range(1, last)}
    delivered = {each.id for each in told if each.state == "delivered"}
    assert delivered <= set(sent)
    # Who dies or loses the connection between sending and recording sends again; nothing else does.
    assert sum(sent.values()) - len(sent) <= len(outages)
    for stores in (detection, people, alerter):
        stores.close()


def trail(stores: ElasticsearchStores) -> Iterator[Audit]:
    """The whole audit trail."""
    return walk(stores.triage.audit, ListQuery(tenant="acme", limit=200))
