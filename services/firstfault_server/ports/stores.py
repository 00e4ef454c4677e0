"""Stores of what detection wrote and of what people did about it."""

from collections.abc import Sequence
from typing import Any, Final, Protocol

import msgspec

from firstfault_server.core import model
from firstfault_server.ports.lists import ListQuery, Page

MAX_SILENCES: Final = 1000
"""Silences of one tenant that count at once."""


class Audit(msgspec.Struct, kw_only=True):
    """Who changed what, when."""

    id: str
    tenant: str
    time_ns: int
    actor: str
    action: str
    subject: str
    detail: dict[str, Any] = {}


class ContextStore(Protocol):
    """Raw context: events with full text."""

    def write_events(self, events: Sequence[model.Event]) -> None:
        """Insert; an id that is there already stays as it is."""

    def event(self, tenant: str, event_id: str) -> model.Event:
        """Raises NotFound."""

    def events(self, query: ListQuery) -> Page[model.Event]:
        """Search keys: run, rank, node, process, event, severity, fingerprint, symptom, attempt, trace; free text: body, exception."""

    def fingerprints(self, query: ListQuery) -> Page[dict[str, Any]]:
        """Per fingerprint: fingerprint, symptom, type, message, count, first_seen_ns, last_seen_ns, runs (≤10), nodes (≤10)."""

    def write_dead_letters(self, letters: Sequence[model.DeadLetter]) -> None:
        """Keep what could not be used, bounded by age and size."""

    def dead_letter(self, tenant: str, letter_id: str) -> model.DeadLetter:
        """Raises NotFound."""

    def dead_letters(self, query: ListQuery) -> Page[model.DeadLetter]:
        """By time of receipt, newest first; the period is one of receipt. There is nothing to search by: `where` is not looked at."""

    def prune(self, before_ns: int) -> int:
        """Drop what is older; returns how many events went."""


class IncidentStore(Protocol):
    """Incidents and runs as detection wrote them."""

    def write_incidents(self, incidents: Sequence[model.Incident]) -> None:
        """Upsert; a revision lower than the stored one changes nothing."""

    def incident(self, tenant: str, incident_id: str) -> model.Incident:
        """Raises NotFound."""

    def incidents(self, query: ListQuery, now_ns: int) -> Page[tuple[model.Incident, model.Triage]]:
        """Filters see the merged view: `is:open|acknowledged|resolved|muted|page|settled|provisional`, with `now_ns` for mutes."""

    def revisions(self, tenant: str, incident_id: str) -> list[model.Incident]:
        """Every stored revision, oldest first: the timeline."""

    def write_runs(self, runs: Sequence[model.RunStatus]) -> None:
        """Upsert by revision."""

    def run(self, tenant: str, run: str) -> model.RunStatus:
        """Raises NotFound."""

    def runs(self, query: ListQuery) -> Page[model.RunStatus]:
        """Search keys: run, state, owner, node, name; newest update first."""

    def prune_incidents(self, before_ns: int, limit: int) -> list[tuple[str, str]]:
        """Drop incidents that are resolved, by detection or people, since before a time, with their revisions and marks.

        Never one that is not resolved. At most `limit` of them; returns (tenant, id) of those that went.
        """

    def prune_runs(self, before_ns: int, limit: int) -> int:
        """Drop runs last updated before a time, at most `limit`; one that an incident in the store is about stays. Returns how many."""


class TriageStore(Protocol):
    """People's marks: compare-and-set, audited."""

    def triage(self, tenant: str, incident_id: str) -> model.Triage:
        """Version 0 when nobody has touched it."""

    def put_triage(self, triage: model.Triage, audit: Audit) -> model.Triage:
        """Write version+1 if the stored version equals `triage.version`; else VersionConflict. The audit entry commits with it."""

    def audit(self, query: ListQuery) -> Page[Audit]:
        """Audit trail, newest first."""

    def prune_audit(self, before_ns: int) -> int:
        """Drop entries that are older; returns how many went."""

    def remember(self, tenant: str, idempotency_key: str, request_hash: str, response: bytes) -> None:
        """Keep the answer of a write for a day."""

    def recall(self, tenant: str, idempotency_key: str) -> tuple[str, bytes] | None:
        """(request_hash, response) of an earlier write with this key."""


class SilenceStore(Protocol):
    """Silences: compare-and-set, audited. One that has ended stays on record until `prune_silences`."""

    def silence(self, tenant: str, silence_id: str) -> model.Silence:
        """Raises NotFound."""

    def put_silence(self, silence: model.Silence, audit: Audit) -> model.Silence:
        """Write version+1 if the stored version (0: none) equals `silence.version`, and the audit entry with it; else VersionConflict."""

    def silences(self, query: ListQuery, now_ns: int) -> Page[model.Silence]:
        """Newest first by creation. Search keys: is (pending, active or ended at `now_ns`), author."""

    def ending_after(self, tenant: str, time_ns: int) -> list[model.Silence]:
        """Those with `ends_ns` later than a time, by (created_ns, id); of more than MAX_SILENCES those that end last."""

    def prune_silences(self, before_ns: int) -> int:
        """Drop those that ended earlier; returns how many went."""
