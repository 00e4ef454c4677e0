"""Elasticsearch stores for tests, each in indices that are removed afterwards."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from firstfault_server.adapters.elasticsearch import Connection, ElasticsearchContextStore, ensure_templates
from firstfault_server.ports import IncidentStore


@contextmanager
def elasticsearch_context(address: str, incidents: IncidentStore) -> Iterator[ElasticsearchContextStore]:
    """A context store that has nothing yet, on which writes are visible at once."""
    # The templates are made once for each worker and stay.
    connection = Connection(url=address, prefix=f"test-{os.getpid()}")
    ensure_templates(connection, replicas=0)
    store = ElasticsearchContextStore(connection, incidents, refresh=True)
    yield store
    store.close()
    remove_indices(connection)


def remove_indices(connection: Connection) -> None:
    """Remove all indices under the prefix; clusters refuse to do so by a pattern."""
    with connection.client() as client:
        indices = [*client.indices.get(index=f"{connection.prefix}-*")]
        if indices:
            client.indices.delete(index=indices)
