"""Raw context: events with full text, and what repeats among them."""

from typing import Any

import msgspec
from fastapi import APIRouter
from starlette.responses import Response

from firstfault_server.api import schemas
from firstfault_server.api.access import Reader
from firstfault_server.api.lists import WithList, json_response, listing
from firstfault_server.api.services import WithServices
from firstfault_server.core import search_fields
from firstfault_server.core.documents import Document, event_document, rfc3339
from firstfault_server.core.fingerprints import of_errors

router = APIRouter(tags=["events"])


def fingerprint_document(row: dict[str, Any]) -> Document:
    """One group of equal texts."""
    return {
        "fingerprint": row["fingerprint"],
        "symptom": row["symptom"],
        "type": row["type"],
        "message": row["message"],
        "count": row["count"],
        "first_seen": rfc3339(row["first_seen_ns"]),
        "last_seen": rfc3339(row["last_seen_ns"]),
        "runs": list(row["runs"]),
        "nodes": list(row["nodes"]),
    }


@router.get("/v1/events", response_model=schemas.EventPage)
def list_events(services: WithServices, caller: Reader, parameters: WithList) -> Response:
    """Exceptions and log records of severity warning and up, newest first, none merged or sampled."""
    wanted = listing("events", parameters, caller, services, search_fields.EVENT)
    return wanted.respond(services.context.events(wanted.query), event_document)


@router.get("/v1/events/{event_id}", response_model=schemas.Event)
def show_event(services: WithServices, caller: Reader, event_id: str) -> Response:
    """One event."""
    return json_response(event_document(services.context.event(caller.tenant, event_id)))


@router.get("/v1/fingerprints", response_model=schemas.FingerprintPage)
def list_fingerprints(services: WithServices, caller: Reader, parameters: WithList) -> Response:
    """Groups of equal failure texts, the one seen last first."""
    wanted = listing("fingerprints", parameters, caller, services, search_fields.EVENT)
    query = msgspec.structs.replace(wanted.query, where=of_errors(wanted.query.where))
    return wanted.respond(services.context.fingerprints(query), fingerprint_document)
