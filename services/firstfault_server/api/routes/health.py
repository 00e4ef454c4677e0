"""Health of the service: alive, ready, counted."""

from fastapi import APIRouter
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.responses import PlainTextResponse, Response

from firstfault_server.api import schemas
from firstfault_server.api.lists import json_response
from firstfault_server.api.services import WithServices

router = APIRouter(tags=["health"])


@router.get("/healthz", response_model=schemas.Health)
async def alive() -> Response:
    """The process answers."""
    return json_response({"status": "ok"})


@router.get("/readyz", response_model=schemas.Health, responses={503: {"model": schemas.Health}})
def ready(services: WithServices) -> Response:
    """Every part works; else 503 and what does not."""
    problems = dict(services.readiness())
    if problems:
        return json_response({"status": "not ready", "problems": problems}, 503)
    return json_response({"status": "ok"})


@router.get("/metrics", response_class=PlainTextResponse)
def metrics(services: WithServices) -> Response:
    """Prometheus text format."""
    return Response(generate_latest(services.registry), media_type=CONTENT_TYPE_LATEST)
