"""What surrounds an incident: how it came about, what it rests on, and what looks like it."""

from collections.abc import Iterator
from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.responses import Response

from firstfault_server import ports
from firstfault_server.api import schemas
from firstfault_server.api.access import Reader
from firstfault_server.api.lists import json_response
from firstfault_server.api.parts import WithPart, part
from firstfault_server.api.services import Services, WithServices
from firstfault_server.api.shown import Shown
from firstfault_server.core import model
from firstfault_server.core.documents import Document, event_document, evidence_document, rfc3339
from firstfault_server.core.search import Expression, Or, Term

router = APIRouter(prefix="/v1/incidents/{incident_id}", tags=["incidents"])

MAX_AUDIT = 200
MAX_SIMILAR = 50


@router.get("/timeline", response_model=schemas.TimelinePage)
def timeline(services: WithServices, caller: Reader, incident_id: str, wanted: WithPart) -> Response:
    """What detection concluded, people did and receivers were told, oldest first."""
    services.incidents.incident(caller.tenant, incident_id)
    audit = services.triage.audit(ports.ListQuery(tenant=caller.tenant, where=Term(key="subject", value=incident_id), limit=MAX_AUDIT))
    entries = [
        *_detected(services.incidents.revisions(caller.tenant, incident_id)),
        *(_entry(entry.time_ns, "person", entry.action, entry.actor, entry.detail) for entry in audit.items),
        *(
            _entry(message.created_ns, "message", message.kind, message.destination, {"number": message.number, "state": message.state})
            for message in services.outbox.messages(caller.tenant, incident_id)
        ),
    ]
    entries.sort(key=lambda entry: (entry[0], entry[1]["what"] != "detected"))
    page, following = part("timeline", wanted, caller, services, [incident_id]).in_order(entries)
    return json_response({"items": [document for _, document in page], "next_cursor": following})


def _entry(time_ns: int, what: str, action: str, actor: str, detail: dict[str, Any]) -> tuple[int, Document]:
    return time_ns, {"time": rfc3339(time_ns), "what": what, "action": action, "actor": actor, "detail": detail}


def _detected(revisions: list[model.Incident]) -> Iterator[tuple[int, Document]]:
    before: Document = {}
    for incident in revisions:
        now = _conclusions(incident)
        changed = {name: value for name, value in now.items() if before.get(name) != value}
        if changed:
            action = "opened" if not before else "changed"
            time_ns = incident.updated_at if before else incident.opened_at
            yield _entry(time_ns, "detected", action, "firstfault", {"revision": incident.revision, **changed})
        before = now


def _conclusions(incident: model.Incident) -> Document:
    fault = incident.first_fault
    return {
        "state": incident.state,
        "title": incident.title,
        "symptom": incident.symptom,
        "severity": incident.severity,
        "page": incident.page,
        "status": fault.status,
        "rank": fault.rank,
        "scope": fault.scope,
        "node": fault.node,
        "domain": incident.cause.domain,
        "recurrences": incident.recurrences,
        "attempt": incident.run.attempt,
    }


@router.get("/evidence", response_model=schemas.EvidencePage)
def evidence(services: WithServices, caller: Reader, incident_id: str, wanted: WithPart) -> Response:
    """Every observation the verdict rests on, with the full event where one is kept."""
    incident = services.incidents.incident(caller.tenant, incident_id)
    page, following = part("evidence", wanted, caller, services, [incident_id]).in_order(incident.evidence)
    items = [{**evidence_document(item), "event": _event(services, caller.tenant, item.id)} for item in page]
    return json_response({"items": items, "not_seen": list(incident.not_seen), "next_cursor": following})


def _event(services: Services, tenant: str, event_id: str) -> Document | None:
    try:
        return event_document(services.context.event(tenant, event_id))
    except ports.NotFound:
        return None


@router.get("/similar", response_model=schemas.SimilarPage)
def similar(services: WithServices, caller: Reader, incident_id: str, limit: Annotated[int, Query(ge=1, le=MAX_SIMILAR)] = 20) -> Response:
    """Other incidents with the same text, group or symptom; the closest first, newer before older."""
    incident = services.incidents.incident(caller.tenant, incident_id)
    now_ns = services.clock.now_ns()
    wanted: list[tuple[str, Expression]] = []
    if incident.fingerprint.id:
        keys = {incident.fingerprint.id, incident.fingerprint.stack_hash} - {""}
        wanted.append(("same fingerprint", Or(parts=tuple(Term(key="fingerprint", value=key) for key in sorted(keys)))))
    if incident.history.group:
        wanted.append(("same group", Term(key="group", value=incident.history.group)))
    wanted.append(("same symptom", Term(key="symptom", value=incident.symptom)))
    found: dict[str, Document] = {}
    shown = Shown(services, caller.tenant)
    for why, where in wanted:
        query = ports.ListQuery(tenant=caller.tenant, where=where, limit=limit + 1)
        for other, triage in services.incidents.incidents(query, now_ns).items:
            if other.id != incident.id and other.id not in found and len(found) < limit:
                found[other.id] = {"why": why, "incident": shown.document(other, triage)}
    return json_response({"items": list(found.values()), "next_cursor": None})
