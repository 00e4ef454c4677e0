"""SilenceStore on Elasticsearch: silences with compare-and-set; a silence carries the audit entry of its latest change."""

import msgspec

from firstfault_server.adapters.elasticsearch.audit import AuditTrail
from firstfault_server.adapters.elasticsearch.bulk import Action
from firstfault_server.adapters.elasticsearch.cluster import Cluster
from firstfault_server.adapters.elasticsearch.documents import document_id, searchable, storable, unpack
from firstfault_server.adapters.elasticsearch.paging import page
from firstfault_server.adapters.elasticsearch.query import Query, compile_query, exactly, long
from firstfault_server.adapters.elasticsearch.templates import SILENCES
from firstfault_server.core import model, search_fields
from firstfault_server.core.search import Term
from firstfault_server.ports import MAX_SILENCES, Audit, ListQuery, NotFound, Page, VersionConflict


class ElasticsearchSilenceStore:
    """One document per silence."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._trail = AuditTrail(cluster)

    def silence(self, tenant: str, silence_id: str) -> model.Silence:
        """Raises NotFound."""
        key = document_id(tenant, silence_id)
        found = self._cluster.get(SILENCES, [key], ["record"])
        if not found:
            raise NotFound(f"no silence {silence_id!r}")
        return unpack(found[key].source["record"], model.Silence)

    def put_silence(self, silence: model.Silence, audit: Audit) -> model.Silence:
        """Write version+1 if the stored version (0: none) equals `silence.version`; else VersionConflict."""
        key = document_id(silence.tenant, silence.id)
        stored = self._cluster.get(SILENCES, [key], ["version", "entry"]).get(key)
        version = 0 if stored is None else stored.source["version"]
        if version != silence.version:
            raise VersionConflict(f"silence {silence.id!r} is at version {version}, not {silence.version}")
        written, record = storable(msgspec.structs.replace(silence, version=version + 1))
        source = {
            "tenant": written.tenant,
            "id": written.id,
            "time_ns": long(written.created_ns),
            "version": written.version,
            "starts_ns": long(written.starts_ns),
            "ends_ns": long(written.ends_ns),
            "search": searchable(search_fields.Document(values={"author": (written.author,)})),
            "record": record,
        }
        if not self._trail.put(SILENCES, key, source, stored, audit).done:
            raise VersionConflict(f"silence {silence.id!r} was changed by somebody else just now")
        return written

    def silences(self, query: ListQuery, now_ns: int) -> Page[model.Silence]:
        """Newest first by creation. Search keys: see `core.search_fields.SILENCE`. Raises SearchError."""

        def state(term: Term) -> Query | None:
            if term.key != "is":
                return None
            begun = {"range": {"starts_ns": {"lte": long(now_ns)}}}
            over = {"range": {"ends_ns": {"lte": long(now_ns)}}}
            states: dict[str, Query] = {
                "pending": {"bool": {"must_not": [begun, over]}},
                "active": {"bool": {"filter": [begun], "must_not": [over]}},
                "ended": over,
            }
            return states[term.value]

        hits, following = page(self._cluster, [SILENCES], query, compile_query(query, search_fields.SILENCE, special=state))
        return Page(items=[unpack(hit["_source"]["record"], model.Silence) for hit in hits], next_key=following)

    def ending_after(self, tenant: str, time_ns: int) -> list[model.Silence]:
        """Those that end later than a time, oldest first; of very many those that end last."""
        query = {"bool": {"filter": [exactly("tenant", tenant), {"range": {"ends_ns": {"gt": long(time_ns)}}}]}}
        latest = [{"ends_ns": "desc"}, {"id": "desc"}]
        hits = self._cluster.search(SILENCES, query=query, sort=latest, size=MAX_SILENCES, source_includes=["record"])
        found = [unpack(hit["_source"]["record"], model.Silence) for hit in hits]
        return sorted(found, key=lambda silence: (silence.created_ns, silence.id))

    def prune_silences(self, before_ns: int) -> int:
        """Drop those that ended earlier; returns how many went."""
        query = {"range": {"ends_ns": {"lt": long(before_ns)}}}
        keys = [hit["_id"] for hit in self._cluster.each(SILENCES, query, [{"id": "asc"}, {"tenant": "asc"}], source=False)]
        actions = []
        for key, stored in self._cluster.get(SILENCES, keys, ["entry", "ends_ns"]).items():
            if stored.source["ends_ns"] < before_ns:
                self._trail.file(stored)
                actions.append(Action(verb="delete", index=self._cluster.index(SILENCES), id=key, condition=stored.unchanged))
        return sum(outcome.done for outcome in self._cluster.write("silences", actions, refresh=True))
