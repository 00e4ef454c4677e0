"""Reading runs."""

from fastapi import APIRouter
from starlette.responses import Response

from firstfault_server.api import schemas
from firstfault_server.api.access import Reader
from firstfault_server.api.lists import WithList, json_response, listing
from firstfault_server.api.services import WithServices
from firstfault_server.core.documents import run_document
from firstfault_server.core.search_fields import RUN

router = APIRouter(prefix="/v1/runs", tags=["runs"])


@router.get("", response_model=schemas.RunPage)
def list_runs(services: WithServices, caller: Reader, parameters: WithList) -> Response:
    """Runs, newest update first."""
    wanted = listing("runs", parameters, caller, services, RUN)
    return wanted.respond(services.incidents.runs(wanted.query), run_document)


@router.get("/{run_id:path}", response_model=schemas.Run)
def show_run(services: WithServices, caller: Reader, run_id: str) -> Response:
    """One run."""
    return json_response(run_document(services.incidents.run(caller.tenant, run_id)))
