"""Who changed what, when."""

from fastapi import APIRouter
from starlette.responses import Response

from firstfault_server import ports
from firstfault_server.api import schemas
from firstfault_server.api.access import Admin
from firstfault_server.api.lists import WithList, listing
from firstfault_server.api.services import WithServices
from firstfault_server.core import search_fields
from firstfault_server.core.documents import Document, rfc3339

router = APIRouter(tags=["access"])


def audit_document(entry: ports.Audit) -> Document:
    """One change."""
    return {
        "id": entry.id,
        "time": rfc3339(entry.time_ns),
        "actor": entry.actor,
        "action": entry.action,
        "subject": entry.subject,
        "detail": entry.detail,
    }


@router.get("/v1/audit", response_model=schemas.AuditPage)
def list_audit(services: WithServices, caller: Admin, parameters: WithList) -> Response:
    """Changes that people made, newest first."""
    wanted = listing("audit", parameters, caller, services, search_fields.AUDIT)
    return wanted.respond(services.triage.audit(wanted.query), audit_document)
