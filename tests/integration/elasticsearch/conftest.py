"""Clusters with names of one test alone."""

from collections.abc import Iterator

import pytest

from firstfault_server.adapters.elasticsearch import Connection, ElasticsearchStores, ensure_templates, open_stores
from tests.contract.indices import own_indices
from tests.contract.records import FixedClock


@pytest.fixture
def connection(elasticsearch_address: str) -> Iterator[Connection]:
    """Of one test alone."""
    with own_indices(elasticsearch_address) as made:
        yield made


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
