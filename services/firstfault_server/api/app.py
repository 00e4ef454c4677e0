"""The application: routes, middleware and error answers around the services it is given."""

import threading
from importlib.metadata import version

from fastapi import Depends, FastAPI
from starlette.middleware.cors import CORSMiddleware

from firstfault_server.api import openapi, problems
from firstfault_server.api.middleware import RequestEnvelope
from firstfault_server.api.parameters import refuse_unknown
from firstfault_server.api.routes import (
    audit,
    context,
    deadletters,
    destinations,
    events,
    health,
    incidents,
    keys,
    nodes,
    numbers,
    runs,
    silences,
    stream,
    triage,
)
from firstfault_server.api.services import Services
from firstfault_server.telemetry import ApiMetrics

ERRORS: dict[int | str, dict[str, object]] = {
    status: {"description": text, "content": {problems.MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}}
    for status, text in {
        400: "The request is not valid.",
        401: "No valid key.",
        403: "The key lacks a scope, or host or origin are not allowed.",
        404: "No such thing for this tenant.",
        413: "The request is too large.",
        412: "Somebody else changed it first.",
        503: "A store cannot answer now.",
    }.items()
}


def create_app(services: Services) -> FastAPI:
    """The ASGI application of the REST API."""
    app = FastAPI(
        title="firstfault",
        version=version("firstfault-server"),
        description="Which rank of a training job failed first, why, and whether it was seen before.",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        responses=ERRORS,
    )
    attach(app, services)
    problems.install(app)
    app.include_router(health.router)
    # A run's id may hold slashes, so what is below a run comes before the run itself.
    for routes in (incidents, context, triage, numbers, runs, events, deadletters, nodes, silences, destinations, keys, audit, stream):
        app.include_router(routes.router, dependencies=[Depends(refuse_unknown)])
    if services.allowed_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=sorted(services.allowed_origins),
            allow_methods=["GET", "POST", "PATCH", "DELETE"],
            allow_headers=["authorization", "content-type", "if-match", "idempotency-key"],
            expose_headers=["etag", "x-request-id", "retry-after"],
        )
    app.add_middleware(RequestEnvelope)
    openapi.install(app)
    return app


def attach(app: FastAPI, services: Services) -> None:
    """Let an application work on these services from now on."""
    app.state.services = services
    app.state.metrics = ApiMetrics(services.registry)
    # Writes with an idempotency key go one by one: people write rarely.
    app.state.write_lock = threading.Lock()
