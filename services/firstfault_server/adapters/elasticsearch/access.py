"""AccessStore on Elasticsearch: API keys and destinations; each carries the audit entry of its latest change."""

from typing import Any, Final

from firstfault_server.adapters.elasticsearch.audit import AuditTrail
from firstfault_server.adapters.elasticsearch.cluster import Cluster
from firstfault_server.adapters.elasticsearch.documents import document_id, storable, unpack
from firstfault_server.adapters.elasticsearch.query import EVERYTHING, Query, exactly, long, plain
from firstfault_server.adapters.elasticsearch.templates import DESTINATIONS, KEYS, Family
from firstfault_server.ports import AccessKey, Audit, Destination, NotFound

TRIES: Final = 20
OLDEST_FIRST: Final = [{"time_ns": "asc"}, {"id": "asc"}, {"tenant": "asc"}]
KEPT: Final[Query] = {"bool": {"must_not": [{"term": {"removed": True}}]}}


class ElasticsearchAccessStore:
    """Keys and destinations, replaced whole. Every change can be searched for when it returns."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._trail = AuditTrail(cluster)

    # ---- keys ------------------------------------------------------------------------------------------------------------

    def put_key(self, key: AccessKey, audit: Audit | None = None) -> None:
        """Insert or replace by id."""
        key, record = storable(key)
        source = {"tenant": key.tenant, "id": key.id, "time_ns": long(key.created_ns), "secret_hash": key.secret_hash, "record": record}
        self._put(KEYS, document_id(key.id), source, audit)

    def keys(self, tenant: str | None = None) -> list[AccessKey]:
        """All keys, or one tenant's, oldest first."""
        query = EVERYTHING if tenant is None else exactly("tenant", tenant)
        hits = self._cluster.each(KEYS, query, OLDEST_FIRST, source_includes=["record"])
        return [unpack(hit["_source"]["record"], AccessKey) for hit in hits]

    def key_by_hash(self, secret_hash: str) -> AccessKey | None:
        """The key of a secret, revoked ones included."""
        query = exactly("secret_hash", secret_hash)
        hits = self._cluster.search(KEYS, query=query, size=1, source_includes=["record"])
        return unpack(hits[0]["_source"]["record"], AccessKey) if hits else None

    # ---- destinations ----------------------------------------------------------------------------------------------------

    def put_destination(self, destination: Destination, audit: Audit | None = None) -> None:
        """Insert or replace by id."""
        destination, record = storable(destination)
        source = {
            "tenant": destination.tenant,
            "id": destination.id,
            "time_ns": long(destination.created_ns),
            "removed": False,
            "record": record,
        }
        self._put(DESTINATIONS, document_id(destination.tenant, destination.id), source, audit)

    def destinations(self, tenant: str) -> list[Destination]:
        """One tenant's destinations, oldest first."""
        query = {"bool": {"filter": [exactly("tenant", tenant), KEPT]}}
        hits = self._cluster.each(DESTINATIONS, query, OLDEST_FIRST, source_includes=["record"])
        return [unpack(hit["_source"]["record"], Destination) for hit in hits]

    def destination(self, tenant: str, destination_id: str) -> Destination:
        """Raises NotFound."""
        key = document_id(tenant, destination_id)
        found = self._cluster.get(DESTINATIONS, [key], ["record", "removed"])
        if not found or found[key].source["removed"]:
            raise NotFound(f"no destination {destination_id!r}")
        return unpack(found[key].source["record"], Destination)

    def remove_destination(self, tenant: str, destination_id: str, audit: Audit | None = None) -> None:
        """Raises NotFound."""
        # A deletion could carry no audit entry; what is left goes with the entry.
        left = {"tenant": plain(tenant), "id": plain(destination_id), "removed": True}
        self._put(DESTINATIONS, document_id(tenant, destination_id), left, audit, there=f"no destination {destination_id!r}")

    def _put(self, family: Family, key: str, source: dict[str, Any], audit: Audit | None, there: str = "") -> None:
        """`there` says what is missing when there is nothing to change."""
        for _ in range(TRIES):
            stored = self._cluster.get(family, [key], ["entry", "removed"]).get(key)
            if there and (stored is None or stored.source["removed"]):
                raise NotFound(there)
            if self._trail.put(family, key, source, stored, audit).done:
                return
        raise self._cluster.unavailable(f"cannot store one of the {family.name}: others keep writing it")
