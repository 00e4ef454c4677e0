"""Reading incidents."""

from fastapi import APIRouter
from starlette.responses import Response

from firstfault_server.api import schemas
from firstfault_server.api.access import Reader
from firstfault_server.api.lists import WithList, json_response, listing
from firstfault_server.api.services import WithServices
from firstfault_server.api.shown import Shown
from firstfault_server.core.search_fields import INCIDENT

router = APIRouter(prefix="/v1/incidents", tags=["incidents"])


@router.get("", response_model=schemas.IncidentPage)
def list_incidents(services: WithServices, caller: Reader, parameters: WithList) -> Response:
    """Incidents, newest first."""
    wanted = listing("incidents", parameters, caller, services, INCIDENT)
    page = services.incidents.incidents(wanted.query, services.clock.now_ns())
    shown = Shown(services, caller.tenant)
    return wanted.respond(page, lambda pair: shown.document(*pair))


@router.get("/{incident_id}", response_model=schemas.Incident)
def show_incident(services: WithServices, caller: Reader, incident_id: str) -> Response:
    """One incident; its ETag is the triage version."""
    incident = services.incidents.incident(caller.tenant, incident_id)
    triage = services.triage.triage(caller.tenant, incident_id)
    return json_response(Shown(services, caller.tenant).document(incident, triage), headers={"etag": f'"{triage.version}"'})
