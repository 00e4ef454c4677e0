"""Elasticsearch stores for tests, each in indices that are removed afterwards."""

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from firstfault_server.adapters.elasticsearch import Connection, ElasticsearchStores, ensure_templates, open_stores
from firstfault_server.ports import Clock


@contextmanager
def elasticsearch_stores(address: str, clock: Clock, *, name: str = "test") -> Iterator[ElasticsearchStores]:
    """Stores that have nothing yet, on which lists see writes at once. Of each name there is one at a time."""
    # The templates are made once for each worker and stay.
    connection = Connection(url=address, prefix=f"{name}-{os.getpid()}")
    ensure_templates(connection, replicas=0)
    stores = open_stores(connection, clock, "one", refresh=True)
    yield stores
    stores.close()
    remove_indices(connection)


@contextmanager
def own_indices(address: str) -> Iterator[Connection]:
    """A prefix of one test alone; what the test makes under it is removed."""
    connection = Connection(url=address, prefix=f"test-{uuid.uuid4().hex}")
    yield connection
    remove_indices(connection)
    with connection.client() as client:
        client.indices.delete_index_template(name=f"{connection.prefix}-*")


def remove_indices(connection: Connection) -> None:
    """Remove all indices under the prefix; clusters refuse to do so by a pattern."""
    with connection.client() as client:
        indices = [*client.indices.get(index=f"{connection.prefix}-*")]
        if indices:
            client.indices.delete(index=indices)
