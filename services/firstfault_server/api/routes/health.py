"""Health of the service: alive, ready, counted."""

from fastapi import APIRouter
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.responses import PlainTextResponse, Response

from firstfault_server.api import schemas
from firstfault_server.api.lists import json_response
from firstfault_server.api.services import Readiness, WithServices

router = APIRouter(tags=["health"])


@router.get("/healthz", response_model=schemas.Health)
async def alive() -> Response:
    """The process answers."""
    return json_response({"status": "ok"})


@router.get("/readyz", response_model=schemas.Health, responses={503: {"model": schemas.Health}})
def ready(services: WithServices) -> Response:
    """Whether requests can be answered; 503 and why not, or `degraded` and what cannot be answered."""
    needed, other = _problems(services.readiness), _problems(services.degraded)
    if needed:
        return json_response({"status": "not ready", "problems": {**needed, **other}}, 503)
    if other:
        return json_response({"status": "degraded", "problems": other})
    return json_response({"status": "ok"})


def _problems(asked: Readiness) -> dict[str, str]:
    return {part: problem for part, problem in asked().items() if problem}


@router.get("/metrics", response_class=PlainTextResponse)
def metrics(services: WithServices) -> Response:
    """Prometheus text format."""
    return Response(generate_latest(services.registry), media_type=CONTENT_TYPE_LATEST)
