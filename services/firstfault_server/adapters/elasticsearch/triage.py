"""TriageStore on Elasticsearch: people's marks with compare-and-set, the audit trail, answers remembered for repeated writes."""

import base64
from typing import Final

import msgspec

from firstfault_server.adapters.elasticsearch.ageing import Ageing
from firstfault_server.adapters.elasticsearch.audit import AuditTrail
from firstfault_server.adapters.elasticsearch.bulk import Action, Outcome
from firstfault_server.adapters.elasticsearch.cluster import Cluster
from firstfault_server.adapters.elasticsearch.documents import Document, document_id, storable, unpack
from firstfault_server.adapters.elasticsearch.merging import Merging
from firstfault_server.adapters.elasticsearch.periods import DAY_NS, period_of
from firstfault_server.adapters.elasticsearch.query import plain
from firstfault_server.adapters.elasticsearch.templates import ANSWERS, TRIAGE
from firstfault_server.core import model
from firstfault_server.ports import Audit, Clock, ListQuery, Page, VersionConflict

REMEMBERED_NS: Final = DAY_NS
"""How long the answer to an idempotency key is kept; no longer than the period of an index."""


class ElasticsearchTriageStore:
    """Marks, audit and idempotency keys; a mark carries its audit entry (`audit.py`)."""

    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster, self._clock = cluster, clock
        self._merging = Merging(cluster, refresh=True)
        self._trail = AuditTrail(cluster)
        self._ageing = Ageing(cluster)

    # ---- marks -----------------------------------------------------------------------------------------------------------

    def triage(self, tenant: str, incident_id: str) -> model.Triage:
        """Version 0 when nobody has touched it."""
        key = document_id(tenant, incident_id)
        return self._merging.marks([key]).get(key) or model.Triage(tenant=tenant, incident=incident_id)

    def put_triage(self, triage: model.Triage, audit: Audit) -> model.Triage:
        """Write version+1 if the stored version equals `triage.version`; else VersionConflict.

        When it raises StoreUnavailable, the write may have happened; the version tells.
        """
        key = document_id(triage.tenant, triage.incident)
        stored = self._cluster.get(TRIAGE, [key], ["version", "entry"]).get(key)
        version = 0 if stored is None else stored.source["version"]
        if version != triage.version:
            raise VersionConflict(f"incident {triage.incident!r} is at version {version}, not {triage.version}")
        written, record = storable(msgspec.structs.replace(triage, version=version + 1))
        source = {"tenant": written.tenant, "id": written.incident, "version": written.version, "unseen": True, "record": record}
        outcome = self._trail.put(TRIAGE, key, source, stored, audit)
        if not outcome.done:
            raise VersionConflict(f"incident {triage.incident!r} was changed by somebody else just now")
        self._show(key, written, outcome)
        return written

    def repair(self) -> int:
        """Let searches see marks whose writer died before it could do so; how many there were. Raises StoreUnavailable."""
        self._cluster.refresh(TRIAGE)
        hits = list(self._cluster.each(TRIAGE, {"term": {"unseen": True}}, [{"id": "asc"}, {"tenant": "asc"}], source=False))
        for hit in hits:
            key = hit["_id"]
            for found in self._cluster.get(TRIAGE, [key], ["record"]).values():
                outcome = Outcome(status=200, seq_no=found.seq_no, primary_term=found.primary_term)
                self._show(key, unpack(found.source["record"], model.Triage), outcome)
        return len(hits)

    def _show(self, key: str, triage: model.Triage, written: Outcome) -> None:
        """Let searches of incidents see marks. Until then their document says `unseen`."""
        self._merging.mark(triage)
        condition = {"if_seq_no": written.seq_no, "if_primary_term": written.primary_term}
        # When somebody has marked it again meanwhile, the flag is his.
        index = self._cluster.index(TRIAGE)
        self._cluster.write("triage", [Action(verb="update", index=index, id=key, source=b'{"doc":{"unseen":false}}', condition=condition)])

    # ---- audit -----------------------------------------------------------------------------------------------------------

    def audit(self, query: ListQuery) -> Page[Audit]:
        """Audit trail, newest first. Search keys: actor, action, subject. Raises SearchError."""
        return self._trail.entries(query)

    def prune_audit(self, before_ns: int) -> int:
        """Drop entries that are older; returns how many went. What else is overdue is done too."""
        self.repair()
        self._ageing.prune(ANSWERS, self._clock.now_ns() - REMEMBERED_NS)
        return self._trail.prune(before_ns)

    # ---- answers ---------------------------------------------------------------------------------------------------------

    def remember(self, tenant: str, idempotency_key: str, request_hash: str, response: bytes) -> None:
        """Keep the answer of a write for a day; the first answer to a key stays."""
        if self.recall(tenant, idempotency_key) is not None:
            return
        now_ns = self._clock.now_ns()
        source = {"received_ns": now_ns, "request_hash": plain(request_hash), "response": base64.b64encode(response).decode()}
        name = document_id(tenant, idempotency_key)
        answer = Document(period=period_of(ANSWERS.unit, now_ns), id=name, source=msgspec.json.encode(source))
        if refused := self._cluster.create(ANSWERS, [answer]):
            raise self._cluster.unavailable(f"refuses an answer: {refused[0].reason}")

    def recall(self, tenant: str, idempotency_key: str) -> tuple[str, bytes] | None:
        """(request_hash, response) of a write of the last day with this key."""
        key = document_id(tenant, idempotency_key)
        now_ns = self._clock.now_ns()
        for time_ns in (now_ns, now_ns - REMEMBERED_NS):
            for found in self._cluster.get(ANSWERS, [key], [], period=period_of(ANSWERS.unit, time_ns)).values():
                if found.source["received_ns"] > now_ns - REMEMBERED_NS:
                    return found.source["request_hash"], base64.b64decode(found.source["response"])
        return None
