"""IncidentStore and TriageStore in memory."""

from collections.abc import Sequence
from typing import Final

from firstfault_server.adapters.memory.state import State, copied, listed
from firstfault_server.core import model, search_fields
from firstfault_server.core.documents import is_muted, resolved_since
from firstfault_server.core.revisions import superfluous
from firstfault_server.ports import Audit, Clock, ListQuery, NotFound, Page, VersionConflict

REMEMBERED_NS: Final = 86_400 * model.SECOND_NS
"""How long the answer to an idempotency key is kept."""


class MemoryIncidentStore:
    """Incidents with their revisions, and runs."""

    def __init__(self, state: State) -> None:
        self._state = state

    def write_incidents(self, incidents: Sequence[model.Incident]) -> None:
        """Upsert; a revision lower than the stored one changes nothing."""
        with self._state.lock:
            for incident in incidents:
                revisions = self._state.incidents.setdefault((incident.tenant, incident.id), {})
                if not revisions or incident.revision >= max(revisions):
                    revisions[incident.revision] = copied(incident)
                    for revision in superfluous(sorted(revisions)):
                        del revisions[revision]

    def incident(self, tenant: str, incident_id: str) -> model.Incident:
        """Raises NotFound."""
        revisions = self.revisions(tenant, incident_id)
        if not revisions:
            raise NotFound(f"no incident {incident_id!r}")
        return revisions[-1]

    def incidents(self, query: ListQuery, now_ns: int) -> Page[tuple[model.Incident, model.Triage]]:
        """Newest first by opening time. Search keys: see `core.search_fields.INCIDENT`. Raises SearchError."""

        def document(pair: tuple[model.Incident, model.Triage]) -> search_fields.Document:
            seen = search_fields.incident_document(*pair)
            if is_muted(pair[1], now_ns):
                seen.values["is"] = (*seen.values["is"], "muted")
            return seen

        with self._state.lock:
            rows = []
            for (tenant, incident_id), revisions in self._state.incidents.items():
                if tenant == query.tenant:
                    incident = copied(revisions[max(revisions)])
                    rows.append((incident.opened_at, incident_id, (incident, read_triage(self._state, tenant, incident_id))))
        return listed(query, search_fields.INCIDENT, rows, document)

    def revisions(self, tenant: str, incident_id: str) -> list[model.Incident]:
        """Every stored revision, oldest first; of very many the middle is gone (`core.revisions`). Empty for an unknown incident."""
        with self._state.lock:
            return [copied(incident) for _, incident in sorted(self._state.incidents.get((tenant, incident_id), {}).items())]

    def write_runs(self, runs: Sequence[model.RunStatus]) -> None:
        """Upsert; a revision lower than the stored one changes nothing."""
        with self._state.lock:
            for run in runs:
                stored = self._state.runs.get((run.tenant, run.run))
                if stored is None or run.revision >= stored.revision:
                    self._state.runs[run.tenant, run.run] = copied(run)

    def run(self, tenant: str, run: str) -> model.RunStatus:
        """Raises NotFound."""
        with self._state.lock:
            stored = self._state.runs.get((tenant, run))
            if stored is None:
                raise NotFound(f"no run {run!r}")
            return copied(stored)

    def runs(self, query: ListQuery) -> Page[model.RunStatus]:
        """Newest first by last update. Search keys: see `core.search_fields.RUN`. Raises SearchError."""
        with self._state.lock:
            rows = [(run.updated_ns, run.run, copied(run)) for run in self._state.runs.values() if run.tenant == query.tenant]
        return listed(query, search_fields.RUN, rows, search_fields.run_document)

    def prune_incidents(self, before_ns: int, limit: int) -> list[tuple[str, str]]:
        """Drop what is resolved since before a time, with its marks; returns (tenant, id) of those that went."""
        with self._state.lock:
            gone = [key for key, revisions in self._state.incidents.items() if self._is_over(*key, revisions, before_ns)][:limit]
            for key in gone:
                del self._state.incidents[key]
                self._state.triage.pop(key, None)
        return gone

    def _is_over(self, tenant: str, incident_id: str, revisions: dict[int, model.Incident], before_ns: int) -> bool:
        since = resolved_since(revisions[max(revisions)], read_triage(self._state, tenant, incident_id))
        return since is not None and since < before_ns

    def prune_runs(self, before_ns: int, limit: int) -> int:
        """Drop runs last updated before a time; one that an incident in the store is about stays."""
        with self._state.lock:
            told = {(tenant, revisions[max(revisions)].run.id) for (tenant, _), revisions in self._state.incidents.items()}
            gone = [key for key, run in self._state.runs.items() if run.updated_ns < before_ns and key not in told][:limit]
            for key in gone:
                del self._state.runs[key]
        return len(gone)


class MemoryTriageStore:
    """People's marks, audit, idempotency keys."""

    def __init__(self, state: State, clock: Clock) -> None:
        self._state = state
        self._clock = clock

    def triage(self, tenant: str, incident_id: str) -> model.Triage:
        """Version 0 when nobody has touched it."""
        with self._state.lock:
            return read_triage(self._state, tenant, incident_id)

    def put_triage(self, triage: model.Triage, audit: Audit) -> model.Triage:
        """Write version+1 if the stored version equals `triage.version`; else VersionConflict."""
        with self._state.lock:
            stored = read_triage(self._state, triage.tenant, triage.incident)
            if stored.version != triage.version:
                raise VersionConflict(f"incident {triage.incident!r} is at version {stored.version}, not {triage.version}")
            written = copied(triage)
            written.version += 1
            self._state.triage[triage.tenant, triage.incident] = written
            self._state.audit[audit.tenant, audit.id] = copied(audit)
            return copied(written)

    def audit(self, query: ListQuery) -> Page[Audit]:
        """Audit trail, newest first. Search keys: actor, action, subject. Raises SearchError."""
        with self._state.lock:
            rows = [(audit.time_ns, audit.id, copied(audit)) for audit in self._state.audit.values() if audit.tenant == query.tenant]
        return listed(query, search_fields.AUDIT, rows, _audit_document)

    def prune_audit(self, before_ns: int) -> int:
        """Drop entries that are older; returns how many went."""
        with self._state.lock:
            gone = [key for key, audit in self._state.audit.items() if audit.time_ns < before_ns]
            for key in gone:
                del self._state.audit[key]
        return len(gone)

    def remember(self, tenant: str, idempotency_key: str, request_hash: str, response: bytes) -> None:
        """Keep the answer of a write for a day; the first answer to a key stays."""
        with self._state.lock:
            if self.recall(tenant, idempotency_key) is None:
                self._state.remembered[tenant, idempotency_key] = (self._clock.now_ns(), request_hash, response)

    def recall(self, tenant: str, idempotency_key: str) -> tuple[str, bytes] | None:
        """(request_hash, response) of a write of the last day with this key."""
        with self._state.lock:
            kept = self._state.remembered.get((tenant, idempotency_key))
        return None if kept is None or kept[0] <= self._clock.now_ns() - REMEMBERED_NS else kept[1:]


def read_triage(state: State, tenant: str, incident_id: str) -> model.Triage:
    """People's marks; version 0 when there are none."""
    stored = state.triage.get((tenant, incident_id))
    return model.Triage(tenant=tenant, incident=incident_id) if stored is None else copied(stored)


def _audit_document(audit: Audit) -> search_fields.Document:
    return search_fields.Document(values={"actor": (audit.actor,), "action": (audit.action,), "subject": (audit.subject,)})
