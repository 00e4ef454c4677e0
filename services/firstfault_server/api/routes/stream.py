"""Server-sent events: every incident that opens or changes, whole, as it happens."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse

from firstfault_server import ports
from firstfault_server.api.access import Principal, Reader
from firstfault_server.api.changes import Subscription, TooManyStreams
from firstfault_server.api.lists import encode
from firstfault_server.api.problems import Problem
from firstfault_server.api.services import Services, WithServices
from firstfault_server.api.shown import Shown
from firstfault_server.core import search_fields
from firstfault_server.core.query import MAX_LENGTH, parse
from firstfault_server.core.search import Expression
from firstfault_server.core.selection import selects

router = APIRouter(tags=["incidents"])

KEEP_ALIVE_S = 15.0
"""A comment this often, so that proxies and clients know the stream lives."""


@router.get("/v1/stream", response_class=StreamingResponse, responses={200: {"content": {"text/event-stream": {}}}})
async def stream(services: WithServices, caller: Reader, q: Annotated[str, Query(max_length=MAX_LENGTH)] = "") -> Response:
    """Events `incident` with an INCIDENT as data; `lost` with a count when the client did not keep up and should list again."""
    where = parse(q, search_fields.INCIDENT)
    try:
        subscription = services.changes.subscribe(caller.tenant)
    except TooManyStreams:
        raise Problem(503, "too many streams are open", "store", {"retry-after": "5"}) from None
    return StreamingResponse(_events(services, caller, where, subscription), media_type="text/event-stream")


async def _events(services: Services, caller: Principal, where: Expression, subscription: Subscription) -> AsyncGenerator[bytes]:
    try:
        yield b": connected\n\n"
        while not subscription.ended:
            try:
                await asyncio.wait_for(subscription.changed.wait(), KEEP_ALIVE_S)
            except TimeoutError:
                yield b": alive\n\n"
                continue
            changed, lost = subscription.take()
            if lost:
                yield b"event: lost\ndata: %d\n\n" % lost
            for incident_id in changed:
                made = await run_in_threadpool(_event, services, caller.tenant, where, incident_id)
                if made:
                    yield made
    finally:
        services.changes.unsubscribe(subscription)


def _event(services: Services, tenant: str, where: Expression, incident_id: str) -> bytes:
    try:
        incident = services.incidents.incident(tenant, incident_id)
        triage = services.triage.triage(tenant, incident_id)
    except ports.NotFound:
        return b""
    except ports.StoreUnavailable:
        return b"event: lost\ndata: 1\n\n"
    if not selects(where, incident, triage, services.clock.now_ns()):
        return b""
    document = encode(Shown(services, tenant).document(incident, triage))
    return b"event: incident\nid: %s.%d.%d\ndata: %s\n\n" % (incident_id.encode(), incident.revision, triage.version, document)
