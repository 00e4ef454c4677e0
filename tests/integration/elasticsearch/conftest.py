"""Clusters with names of one test alone."""

import uuid
from collections.abc import Iterator

import pytest

from firstfault_server.adapters.elasticsearch import Connection, ElasticsearchStores, ensure_templates, open_stores
from tests.contract.indices import remove_indices
from tests.contract.records import FixedClock


@pytest.fixture
def connection(elasticsearch_address: str) -> Iterator[Connection]:
    """What a test made under its prefix is removed."""
    made = Connection(url=elasticsearch_address, prefix=f"test-{uuid.uuid4().hex}")
    yield made
    remove_indices(made)
    with made.client() as client:
        client.indices.delete_index_template(name=f"{made.prefix}-*")


@pytest.fixture
def clock() -> FixedClock:
    """A clock that tests move by hand."""
    return FixedClock()


@pytest.fixture
def stores(connection: Connection, clock: FixedClock) -> Iterator[ElasticsearchStores]:
    """Empty stores on prepared templates, as they are in service: lists may lag behind."""
    ensure_templates(connection, replicas=0)
    opened = open_stores(connection, clock, "one")
    yield opened
    opened.close()


@pytest.fixture
def others(connection: Connection, stores: ElasticsearchStores, clock: FixedClock) -> Iterator[ElasticsearchStores]:
    """The same stores in another process."""
    opened = open_stores(connection, clock, "two")
    yield opened
    opened.close()
