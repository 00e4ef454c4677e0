"""Where pages go, and the record of every try to get them there."""

import base64
import binascii
from typing import Annotated

import msgspec
from fastapi import APIRouter
from pydantic import Field
from starlette.responses import Response

from firstfault_server import ports
from firstfault_server.api import schemas
from firstfault_server.api.access import Admin, Reader, Writer
from firstfault_server.api.lists import WithList, json_response, listing
from firstfault_server.api.parts import WithPart, part
from firstfault_server.api.problems import Problem
from firstfault_server.api.services import Services, WithServices
from firstfault_server.api.writes import Body, Name, audit
from firstfault_server.core import search_fields
from firstfault_server.core.documents import Document, rfc3339
from firstfault_server.core.query import MAX_LENGTH, parse

router = APIRouter(tags=["alerts"])

MAX_DESTINATIONS = 100
SECRET_PREFIX = "whsec_"
Url = Annotated[str, Field(min_length=1, max_length=2000)]
Where = Annotated[str, Field(max_length=MAX_LENGTH)]


class NewDestination(Body):
    """A webhook; without a secret one is made."""

    name: Name
    url: Url
    kind: str = Field(default="webhook", pattern="^webhook$")
    where: Where = "is:page"
    secret: Annotated[str, Field(max_length=200)] | None = None
    allow_private: bool = False


class DestinationChange(Body):
    """Members that are given change."""

    name: Name | None = None
    url: Url | None = None
    where: Where | None = None
    allow_private: bool | None = None
    enabled: bool | None = None


def destination_document(destination: ports.Destination) -> Document:
    """A destination without its secret."""
    return {
        "id": destination.id,
        "name": destination.name,
        "kind": destination.kind,
        "url": destination.url,
        "where": destination.where,
        "enabled": destination.enabled,
        "disabled_why": destination.disabled_why,
        "allow_private": destination.allow_private,
        "created_at": rfc3339(destination.created_ns),
    }


def delivery_document(delivery: ports.Delivery) -> Document:
    """One try."""
    return {
        "id": delivery.id,
        "message": delivery.message,
        "destination": delivery.destination,
        "incident": delivery.incident,
        "kind": delivery.kind,
        "attempt": delivery.attempt,
        "time": rfc3339(delivery.time_ns),
        "duration_s": delivery.duration_s,
        "status": delivery.status,
        "error": delivery.error,
        "delivered": delivery.delivered,
    }


@router.get("/v1/destinations", response_model=schemas.DestinationPage)
def list_destinations(services: WithServices, caller: Reader, wanted: WithPart) -> Response:
    """All destinations of the tenant."""
    found = services.access.destinations(caller.tenant)
    page, following = part("destinations", wanted, caller, services).cut(found, lambda one: (one.created_ns, one.id))
    return json_response({"items": [destination_document(destination) for destination in page], "next_cursor": following})


@router.get("/v1/destinations/{destination_id}", response_model=schemas.Destination)
def show_destination(services: WithServices, caller: Reader, destination_id: str) -> Response:
    """One destination."""
    return json_response(destination_document(services.access.destination(caller.tenant, destination_id)))


@router.post("/v1/destinations", response_model=schemas.NewDestination, status_code=201)
def create_destination(services: WithServices, caller: Admin, body: NewDestination) -> Response:
    """Add a destination; its secret is in this answer and in no other."""
    if len(services.access.destinations(caller.tenant)) >= MAX_DESTINATIONS:
        raise Problem(400, f"a tenant has at most {MAX_DESTINATIONS} destinations", "invalid")
    _check(services, body.url, body.allow_private, body.where)
    secret = body.secret if body.secret is not None else SECRET_PREFIX + base64.b64encode(services.new_secret()).decode("ascii")
    _check_secret(secret)
    made = ports.Destination(
        id=services.new_id(), tenant=caller.tenant, name=body.name, kind=body.kind, url=body.url, secret=secret,
        allow_private=body.allow_private, where=body.where, created_ns=services.clock.now_ns(),
    )  # fmt: skip
    services.access.put_destination(made, audit(services, caller, "add_destination", made.id, body.model_dump(exclude={"secret"})))
    services.log.info("destination made", destination=made.id, name=made.name, by=caller.actor)
    return json_response({**destination_document(made), "secret": secret}, 201)


@router.patch("/v1/destinations/{destination_id}", response_model=schemas.Destination)
def change_destination(services: WithServices, caller: Admin, destination_id: str, body: DestinationChange) -> Response:
    """Change some members; `enabled: true` also takes back a destination that its receiver had refused for good."""
    known = services.access.destination(caller.tenant, destination_id)
    changes = body.model_dump(exclude_none=True)
    if body.enabled is not None:
        changes["disabled_why"] = "" if body.enabled else f"by {caller.actor}"
    changed = msgspec.structs.replace(known, **changes)
    _check(services, changed.url, changed.allow_private, changed.where)
    detail = body.model_dump(exclude_none=True)
    services.access.put_destination(changed, audit(services, caller, "change_destination", destination_id, detail))
    return json_response(destination_document(changed))


@router.delete("/v1/destinations/{destination_id}", status_code=204)
def remove_destination(services: WithServices, caller: Admin, destination_id: str) -> Response:
    """Remove a destination; messages that wait for it are given up."""
    known = services.access.destination(caller.tenant, destination_id)
    entry = audit(services, caller, "remove_destination", destination_id, {"name": known.name, "url": known.url})
    services.access.remove_destination(caller.tenant, destination_id, entry)
    services.log.info("destination removed", destination=destination_id, by=caller.actor)
    return Response(status_code=204)


@router.post("/v1/destinations/{destination_id}/test", response_model=schemas.Delivery)
async def test_destination(services: WithServices, caller: Writer, destination_id: str) -> Response:
    """Send a test message now and say how it went."""
    from starlette.concurrency import run_in_threadpool

    destination = await run_in_threadpool(services.access.destination, caller.tenant, destination_id)
    return json_response(delivery_document(await services.test_destination(destination)))


@router.get("/v1/deliveries", response_model=schemas.DeliveryPage)
def list_deliveries(services: WithServices, caller: Reader, parameters: WithList) -> Response:
    """Every try to deliver a message, newest first."""
    wanted = listing("deliveries", parameters, caller, services, search_fields.DELIVERY)
    return wanted.respond(services.outbox.deliveries(wanted.query), delivery_document)


def _check(services: Services, url: str, allow_private: bool, where: str) -> None:
    reason = services.url_problem(url, allow_private)
    if reason:
        raise Problem(400, f"url: {reason}", "invalid")
    parse(where, search_fields.INCIDENT)


def _check_secret(secret: str) -> None:
    try:
        size = len(base64.b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)) if secret.startswith(SECRET_PREFIX) else 0
    except (binascii.Error, ValueError):
        size = 0
    if not 24 <= size <= 64:
        raise Problem(400, f"secret: is {SECRET_PREFIX} and 24 to 64 bytes in base64", "invalid")
