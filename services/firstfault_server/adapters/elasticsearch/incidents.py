"""IncidentStore on Elasticsearch: incidents with their revisions, runs."""

from collections.abc import Iterator, Sequence

import msgspec

from firstfault_server.adapters.elasticsearch.audit import AuditTrail
from firstfault_server.adapters.elasticsearch.bulk import Action
from firstfault_server.adapters.elasticsearch.cluster import AT_ONCE, Cluster, Hit, Refresh
from firstfault_server.adapters.elasticsearch.dead_letters import DeadLetters
from firstfault_server.adapters.elasticsearch.documents import document_id, storable, unpack
from firstfault_server.adapters.elasticsearch.incident_documents import Written, revision_id, run_source
from firstfault_server.adapters.elasticsearch.merging import Merging
from firstfault_server.adapters.elasticsearch.paging import page
from firstfault_server.adapters.elasticsearch.query import Query, compile_query, long
from firstfault_server.adapters.elasticsearch.templates import INCIDENTS, REVISIONS, RUNS, TRIAGE
from firstfault_server.core import model, search_fields
from firstfault_server.core.search import Term
from firstfault_server.ports import ListQuery, NotFound, Page

TEXTS = ("words",)
HIGHEST_VERSION = (1 << 63) - 2
"""Elasticsearch counts versions in 63 bits."""


class ElasticsearchIncidentStore:
    """Incidents and runs as detection wrote them, searched together with people's marks."""

    def __init__(self, cluster: Cluster, *, refresh: Refresh = False) -> None:
        """`refresh` lets lists see writes at once, at a cost; else within a second. `incident` and `run` always do."""
        self._cluster, self._refresh = cluster, refresh
        self._merging = Merging(cluster, refresh=refresh)
        self._trail = AuditTrail(cluster)
        self._dead_letters = DeadLetters(cluster, refresh=refresh)

    # ---- incidents -------------------------------------------------------------------------------------------------------

    def write_incidents(self, incidents: Sequence[model.Incident]) -> None:
        """Upsert; a revision lower than the stored one changes nothing. What the index refuses becomes a dead letter."""
        stories: dict[str, list[Written]] = {}
        letters: list[model.DeadLetter] = []
        for incident in incidents:
            try:
                written = Written(*storable(incident))
            except OverflowError as error:
                letters.append(_dead_letter(incident.tenant, f"incident {incident.id}", incident.updated_at, error))
                continue
            stories.setdefault(document_id(incident.tenant, incident.id), []).append(written)
        for refusal in self._merging.write(stories):
            refused = refusal.written.incident
            letters.append(_dead_letter(refused.tenant, f"incident {refused.id}", refused.updated_at, refusal.reason))
        self._dead_letters.write(letters)

    def incident(self, tenant: str, incident_id: str) -> model.Incident:
        """Raises NotFound."""
        key = document_id(tenant, incident_id)
        found = self._cluster.get(INCIDENTS, [key], ["record"])
        if not found:
            raise NotFound(f"no incident {incident_id!r}")
        return unpack(found[key].source["record"], model.Incident)

    def incidents(self, query: ListQuery, now_ns: int) -> Page[tuple[model.Incident, model.Triage]]:
        """Newest first by opening time. Search keys: see `core.search_fields.INCIDENT`. Raises SearchError."""

        def muted(term: Term) -> Query | None:
            wanted = (term.key, term.value) == ("is", "muted")
            return {"range": {"marks.muted_until_ns": {"gt": long(now_ns)}}} if wanted else None

        hits, following = page(self._cluster, [INCIDENTS], query, compile_query(query, search_fields.INCIDENT, TEXTS, muted))
        marks = self._merging.marks([hit["_id"] for hit in hits])
        items = []
        for hit in hits:
            incident = unpack(hit["_source"]["record"], model.Incident)
            items.append((incident, marks.get(hit["_id"]) or model.Triage(tenant=incident.tenant, incident=incident.id)))
        return Page(items=items, next_key=following)

    def revisions(self, tenant: str, incident_id: str) -> list[model.Incident]:
        """Every stored revision, oldest first; of very many the middle is gone (`core.revisions`). Empty for an unknown incident."""
        key = document_id(tenant, incident_id)
        found = self._cluster.get(INCIDENTS, [key], ["revisions"])
        names = [revision_id(key, revision) for each in found.values() for revision in each.source["revisions"]]
        stored = self._cluster.get(REVISIONS, names, ["record"])
        # A revision that was dropped in between belongs to the middle of the story.
        return [unpack(stored[name].source["record"], model.Incident) for name in names if name in stored]

    def prune_incidents(self, before_ns: int, limit: int) -> list[tuple[str, str]]:
        """Drop what is resolved since before a time, with its marks; returns (tenant, id) of those that went."""
        self._cluster.refresh(INCIDENTS, REVISIONS)
        query = {"range": {"resolved_ns": {"lt": long(before_ns)}}}
        asked = {"seq_no_primary_term": True, "source_includes": ["tenant", "id", "marks"]}
        gone: list[tuple[str, str]] = []
        for hit in self._cluster.each(INCIDENTS, query, [{"time_ns": "asc"}, {"id": "asc"}, {"tenant": "asc"}], **asked):
            if len(gone) == limit:
                break
            if self._drop(hit):
                gone.append((hit["_source"]["tenant"], hit["_source"]["id"]))
        self._cluster.refresh(INCIDENTS)
        return gone

    def _drop(self, hit: Hit) -> bool:
        """False when somebody has just changed it."""
        key = hit["_id"]
        marks = self._cluster.get(TRIAGE, [key], ["version", "entry"]).get(key)
        if marks is not None and marks.source["version"] != hit["_source"]["marks"]["version"]:
            # Marks that its document has not seen yet may have opened it again.
            return False
        if not all(outcome.done for outcome in self._cluster.write("incidents", [_delete(self._cluster.index(INCIDENTS), hit)])):
            return False
        if marks is not None:
            self._trail.file(marks)
            self._cluster.write("triage", [Action(verb="delete", index=self._cluster.index(TRIAGE), id=key, condition=marks.unchanged)])
        told = self._cluster.each(REVISIONS, {"term": {"incident": key}}, [{"revision": "asc"}], source=False)
        index = self._cluster.index(REVISIONS)
        self._cluster.write("revisions", [Action(verb="delete", index=index, id=each["_id"]) for each in told])
        return True

    # ---- runs ------------------------------------------------------------------------------------------------------------

    def write_runs(self, runs: Sequence[model.RunStatus]) -> None:
        """Upsert; a revision lower than the stored one changes nothing. What the index refuses becomes a dead letter."""
        actions: list[Action] = []
        kept: list[model.RunStatus] = []
        letters: list[model.DeadLetter] = []
        index = self._cluster.index(RUNS)
        for run in runs:
            try:
                stored, record = storable(run)
            except OverflowError as error:
                letters.append(_dead_letter(run.tenant, f"run {run.run}", run.updated_ns, error))
                continue
            kept.append(stored)
            source = msgspec.json.encode(run_source(stored, record))
            version = {"version": min(max(stored.revision, 0), HIGHEST_VERSION), "version_type": "external_gte"}
            actions.append(Action(verb="index", index=index, id=document_id(stored.tenant, stored.run), source=source, condition=version))
        for run, outcome in zip(kept, self._cluster.write("runs", actions, refresh=self._refresh), strict=True):
            if outcome.refused:
                letters.append(_dead_letter(run.tenant, f"run {run.run}", run.updated_ns, outcome.reason))
        self._dead_letters.write(letters)

    def run(self, tenant: str, run: str) -> model.RunStatus:
        """Raises NotFound."""
        key = document_id(tenant, run)
        found = self._cluster.get(RUNS, [key], ["record"])
        if not found:
            raise NotFound(f"no run {run!r}")
        return unpack(found[key].source["record"], model.RunStatus)

    def runs(self, query: ListQuery) -> Page[model.RunStatus]:
        """Newest first by last update. Search keys: see `core.search_fields.RUN`. Raises SearchError."""
        hits, following = page(self._cluster, [RUNS], query, compile_query(query, search_fields.RUN, TEXTS))
        return Page(items=[unpack(hit["_source"]["record"], model.RunStatus) for hit in hits], next_key=following)

    def prune_runs(self, before_ns: int, limit: int) -> int:
        """Drop runs last updated before a time; one that an incident in the store is about stays."""
        self._cluster.refresh(INCIDENTS, RUNS)
        gone = 0
        for hits in self._old_runs(before_ns):
            told = self._with_incidents([hit["_id"] for hit in hits])
            chosen = [hit for hit in hits if hit["_id"] not in told][: limit - gone]
            index = self._cluster.index(RUNS)
            gone += sum(outcome.done for outcome in self._cluster.write("runs", [_delete(index, hit) for hit in chosen]))
            if gone >= limit:
                break
        self._cluster.refresh(RUNS)
        return gone

    def _old_runs(self, before_ns: int) -> Iterator[list[Hit]]:
        query = {"range": {"time_ns": {"lt": long(before_ns)}}}
        order = [{"time_ns": "asc"}, {"id": "asc"}, {"tenant": "asc"}]
        batch: list[Hit] = []
        for hit in self._cluster.each(RUNS, query, order, seq_no_primary_term=True, source=False):
            batch.append(hit)
            if len(batch) == AT_ONCE:
                yield batch
                batch = []
        yield batch

    def _with_incidents(self, keys: Sequence[str]) -> set[str]:
        counts = {"each": {"terms": {"field": "run", "size": AT_ONCE}}}
        answer = self._cluster.ask(INCIDENTS, query={"terms": {"run": list(keys)}}, size=0, aggs=counts)
        return {bucket["key"] for bucket in answer.get("aggregations", {}).get("each", {}).get("buckets", [])}


def _delete(index: str, hit: Hit) -> Action:
    condition = {"if_seq_no": hit["_seq_no"], "if_primary_term": hit["_primary_term"]}
    return Action(verb="delete", index=index, id=hit["_id"], condition=condition)


def _dead_letter(tenant: str, what: str, time_ns: int, why: object) -> model.DeadLetter:
    reason = f"the {what} cannot be stored: {why}"
    return model.DeadLetter(id=document_id(tenant, reason), tenant=tenant, received_ns=long(time_ns), reason=reason[:1000])
