"""A node that dies: what was written stays, and what is sent again is there once."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.native.servers.elasticsearch import Elasticsearch
from firstfault_server.adapters.elasticsearch import Connection, ensure_templates, open_stores
from firstfault_server.ports import ListQuery, StoreUnavailable
from tests.contract.records import FixedClock, event

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
    seen: list[str] = []
    query: ListQuery | None = ListQuery(tenant="acme", limit=200)
    while query is not None:
        page = store.events(query)
        seen += [item.id for item in page.items]
        query = None if page.next_key is None else ListQuery(tenant="acme", limit=200, after=tuple(page.next_key))
    assert sorted(seen) == sorted(f"e-{number:04}" for number in written)
    assert outages
    assert all("Elasticsearch at" in reason for reason in outages)
    stores.close()
