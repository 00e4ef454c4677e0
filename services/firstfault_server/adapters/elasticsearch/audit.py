"""The audit trail: an entry that commits with its change, although a cluster writes each document by itself.

A changed document carries the entry of its latest change. The next change first files that entry in the trail and only then takes its
place, so at every moment each entry is in the document, in the trail, or in both. Readers ask both.
"""

from typing import Any, Final

import msgspec

from firstfault_server.adapters.elasticsearch.ageing import Ageing
from firstfault_server.adapters.elasticsearch.bulk import Action, Outcome
from firstfault_server.adapters.elasticsearch.cluster import AT_ONCE, Cluster, Found
from firstfault_server.adapters.elasticsearch.documents import Document, document_id, searchable, storable, unpack
from firstfault_server.adapters.elasticsearch.paging import page
from firstfault_server.adapters.elasticsearch.periods import period_of
from firstfault_server.adapters.elasticsearch.query import compile_query, long
from firstfault_server.adapters.elasticsearch.templates import AUDIT_ENTRIES, DESTINATIONS, KEYS, SILENCES, TRIAGE, Family
from firstfault_server.core import search_fields
from firstfault_server.core.documents import rfc3339
from firstfault_server.ports import Audit, ListQuery, Page

CARRIERS: Final = (TRIAGE, SILENCES, KEYS, DESTINATIONS)
WITHIN: Final = "entry."


class AuditTrail:
    """Who changed what, over all that people change."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._ageing = Ageing(cluster)

    def put(self, family: Family, key: str, source: dict[str, Any], stored: Found | None, audit: Audit | None) -> Outcome:
        """Write a document if the stored one is still `stored` (None: none), which must have been read with its `entry`.

        Without an audit entry it keeps carrying the one it has. Searches see it at once. Raises StoreUnavailable.
        """
        carried = None if stored is None else stored.source.get("entry")
        if audit is not None:
            self.file(stored)
            carried = entry_source(audit)
        return self._cluster.put(family, key, source | ({"entry": carried} if carried else {}), stored, refresh=True)

    def file(self, stored: Found | None) -> None:
        """Put the entry that a document carries into the trail, before the document goes. Raises StoreUnavailable."""
        entry = None if stored is None else stored.source.get("entry")
        if not entry:
            return
        time_ns: int = entry["time_ns"]
        source = {"@timestamp": rfc3339(time_ns), "received_ns": time_ns, "entry": entry}
        name = document_id(entry["tenant"], entry["id"])
        filed = Document(period=period_of(AUDIT_ENTRIES.unit, time_ns), id=name, source=msgspec.json.encode(source))
        if refused := self._cluster.create(AUDIT_ENTRIES, [filed]):
            raise self._cluster.unavailable(f"refuses an audit entry: {refused[0].reason}")

    def entries(self, query: ListQuery) -> Page[Audit]:
        """Newest first. Search keys: actor, action, subject. Raises SearchError."""
        compiled = compile_query(query, search_fields.AUDIT, within=WITHIN)
        # What moves from a document into the trail must not be missed in between.
        self._cluster.refresh(AUDIT_ENTRIES)
        hits, following = page(self._cluster, (AUDIT_ENTRIES, *CARRIERS), query, compiled, within=WITHIN)
        return Page(items=[unpack(hit["_source"]["entry"]["record"], Audit) for hit in hits], next_key=following)

    def prune(self, before_ns: int) -> int:
        """Drop entries that are older, those that documents carry too; how many went."""
        gone = self._ageing.prune(AUDIT_ENTRIES, before_ns)
        for family in CARRIERS:
            self._cluster.refresh(family)
            gone += sum(self._strip(family, before_ns))
        return gone

    def _strip(self, family: Family, before_ns: int) -> list[int]:
        """Take old entries out of the documents; what was kept for its entry alone goes as a whole."""
        counts = []
        old = {"range": {f"{WITHIN}time_ns": {"lt": long(before_ns)}}}
        index = self._cluster.index(family)
        while True:
            hits = self._cluster.search(family, query=old, size=AT_ONCE, seq_no_primary_term=True, source_includes=["removed"])
            actions = []
            for hit in hits:
                condition = {"if_seq_no": hit["_seq_no"], "if_primary_term": hit["_primary_term"]}
                if hit["_source"].get("removed"):
                    actions.append(Action(verb="delete", index=index, id=hit["_id"], condition=condition))
                else:
                    actions.append(Action(verb="update", index=index, id=hit["_id"], source=b'{"doc":{"entry":null}}', condition=condition))
            outcomes = self._cluster.write(family.name, actions, refresh=True)
            counts.append(sum(outcome.done for outcome in outcomes))
            if not counts[-1]:
                return counts


def entry_source(audit: Audit) -> dict[str, Any]:
    """An entry as a part of a document."""
    audit, record = storable(audit)
    seen = search_fields.Document(values={"actor": (audit.actor,), "action": (audit.action,), "subject": (audit.subject,)})
    return {"tenant": audit.tenant, "id": audit.id, "time_ns": long(audit.time_ns), "search": searchable(seen), "record": record}
