"""Incidents with people's marks, their revisions, and runs as documents."""

from typing import Any

import msgspec

from firstfault_server.adapters.elasticsearch.documents import document_id, searchable, unpack, worded
from firstfault_server.adapters.elasticsearch.query import long
from firstfault_server.core import model, search_fields
from firstfault_server.core.documents import resolved_since, rfc3339

Source = dict[str, Any]


class Written(msgspec.Struct, frozen=True):
    """An incident with its text as stored (`documents.storable`)."""

    incident: model.Incident
    record: str


def incident_source(written: Written, revisions: list[int], triage: model.Triage) -> Source:
    """What lists find of an incident: as detection wrote it, under the marks that people had made.

    `marks` says which version of the marks it was; the marks themselves are in the store of triage alone.
    """
    incident = written.incident
    seen = search_fields.incident_document(incident, triage)
    resolved_ns, muted_until_ns = resolved_since(incident, triage), triage.muted_until_ns
    return {
        "@timestamp": rfc3339(incident.opened_at),
        "tenant": incident.tenant,
        "id": incident.id,
        "time_ns": long(incident.opened_at),
        "run": document_id(incident.tenant, incident.run.id),
        "revision": incident.revision,
        "revisions": revisions,
        "resolved_ns": None if resolved_ns is None else long(resolved_ns),
        "marks": {"version": triage.version, "muted_until_ns": None if muted_until_ns is None else long(muted_until_ns)},
        "search": searchable(seen),
        "words": worded(seen.texts),
        "record": written.record,
    }


def marked_source(stored: Source, triage: model.Triage) -> Source:
    """The same document under other marks."""
    record: str = stored["record"]
    return incident_source(Written(unpack(record, model.Incident), record), stored["revisions"], triage)


def revision_id(key: str, revision: int) -> str:
    """Id of the document of a revision; `key` is that of the incident's."""
    return f"{key}-{revision}"


def revision_source(key: str, written: Written) -> Source:
    """A revision for the timeline, found by its id alone."""
    return {"incident": key, "revision": long(written.incident.revision), "record": written.record}


def run_source(run: model.RunStatus, record: str) -> Source:
    """What lists find of a run."""
    seen = search_fields.run_document(run)
    return {
        "@timestamp": rfc3339(run.updated_ns),
        "tenant": run.tenant,
        "id": run.run,
        "time_ns": long(run.updated_ns),
        "search": searchable(seen),
        "words": worded(seen.texts),
        "record": record,
    }
