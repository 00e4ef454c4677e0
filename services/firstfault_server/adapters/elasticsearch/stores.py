"""Every store of the distributed service over one cluster."""

import msgspec

from firstfault_server.adapters.elasticsearch.access import ElasticsearchAccessStore
from firstfault_server.adapters.elasticsearch.cluster import Cluster, Refresh
from firstfault_server.adapters.elasticsearch.connection import Connection
from firstfault_server.adapters.elasticsearch.events import ElasticsearchContextStore
from firstfault_server.adapters.elasticsearch.incidents import ElasticsearchIncidentStore
from firstfault_server.adapters.elasticsearch.outbox import LEASE_S, ElasticsearchOutbox
from firstfault_server.adapters.elasticsearch.silences import ElasticsearchSilenceStore
from firstfault_server.adapters.elasticsearch.triage import ElasticsearchTriageStore
from firstfault_server.ports import Clock


class ElasticsearchStores(msgspec.Struct, frozen=True):
    """All of them; they share a client."""

    cluster: Cluster
    context: ElasticsearchContextStore
    incidents: ElasticsearchIncidentStore
    triage: ElasticsearchTriageStore
    silences: ElasticsearchSilenceStore
    access: ElasticsearchAccessStore
    outbox: ElasticsearchOutbox

    def close(self) -> None:
        """Release the client. Who delivered messages calls `outbox.release` first, so that others need not wait for its lease to end."""
        self.cluster.close()


def open_stores(
    connection: Connection, clock: Clock, owner: str, *, lease_s: float = LEASE_S, refresh: Refresh = False
) -> ElasticsearchStores:
    """Stores that connect with their first request; the first write raises StoreUnavailable unless `ensure_templates` has run.

    `owner` names this process among those that deliver messages. `refresh` lets lists see every write at once, at a cost: for tests.
    """
    cluster = Cluster(connection)
    incidents = ElasticsearchIncidentStore(cluster, refresh=refresh)
    return ElasticsearchStores(
        cluster=cluster,
        context=ElasticsearchContextStore(cluster, incidents, refresh=refresh),
        incidents=incidents,
        triage=ElasticsearchTriageStore(cluster, clock),
        silences=ElasticsearchSilenceStore(cluster),
        access=ElasticsearchAccessStore(cluster),
        outbox=ElasticsearchOutbox(cluster, owner, lease_s=lease_s, refresh=refresh),
    )
