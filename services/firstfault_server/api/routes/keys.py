"""API keys of the caller's tenant. A key is shown once, when it is made; only its hash is kept."""

import base64
from typing import Annotated

import msgspec
from fastapi import APIRouter
from pydantic import Field
from starlette.responses import Response

from firstfault_server import ports
from firstfault_server.api import schemas
from firstfault_server.api.access import Admin
from firstfault_server.api.lists import json_response
from firstfault_server.api.parts import WithPart, part
from firstfault_server.api.problems import Problem
from firstfault_server.api.services import WithServices
from firstfault_server.api.writes import Body, Name, audit
from firstfault_server.core import access
from firstfault_server.core.documents import Document, optional_time, rfc3339

router = APIRouter(prefix="/v1/keys", tags=["access"])


class NewKey(Body):
    """What the key is for and what it may do."""

    name: Name
    scopes: Annotated[list[ports.Permission], Field(min_length=1, max_length=5)]
    tenant: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")] | None = None


def key_document(key: ports.AccessKey) -> Document:
    """A key without its secret."""
    return {
        "id": key.id,
        "tenant": key.tenant,
        "name": key.name,
        "scopes": list(key.scopes),
        "created_at": rfc3339(key.created_ns),
        "revoked_at": optional_time(key.revoked_ns),
    }


def make_key(
    key_id: str, secret: bytes, tenant: str, name: str, scopes: list[ports.Permission], now_ns: int
) -> tuple[str, ports.AccessKey]:
    """The key as its owner sees it, and as it is stored."""
    text = access.PREFIX + base64.urlsafe_b64encode(secret).decode("ascii").rstrip("=")
    ordered = sorted(set(scopes))
    stored = ports.AccessKey(id=key_id, tenant=tenant, name=name, secret_hash=access.secret_hash(text), scopes=ordered, created_ns=now_ns)
    return text, stored


@router.get("", response_model=schemas.KeyPage)
def list_keys(services: WithServices, caller: Admin, wanted: WithPart) -> Response:
    """All keys of the tenant, revoked ones too."""
    found = services.access.keys(caller.tenant)
    page, following = part("keys", wanted, caller, services).cut(found, lambda key: (key.created_ns, key.id))
    return json_response({"items": [key_document(key) for key in page], "next_cursor": following})


@router.post("", response_model=schemas.NewKey, status_code=201)
def create_key(services: WithServices, caller: Admin, body: NewKey) -> Response:
    """Make a key. The first one of all must be able to make others: from then on nobody gets in without a key."""
    tenant = body.tenant or caller.tenant
    if tenant != caller.tenant and not caller.keyless:
        raise Problem(403, "a key can be made for one's own tenant only", "scope")
    if caller.keyless and "admin" not in body.scopes:
        raise Problem(400, "scopes: the first key needs the scope admin; afterwards every request needs a key", "invalid")
    text, stored = make_key(services.new_id(), services.new_secret(), tenant, body.name, body.scopes, services.clock.now_ns())
    detail = {"name": stored.name, "scopes": list(stored.scopes)}
    services.access.put_key(stored, audit(services, caller, "make_key", stored.id, detail, tenant))
    services.log.info("key made", key=stored.id, by=caller.actor)
    return json_response({**key_document(stored), "key": text}, 201)


@router.delete("/{key_id}", status_code=204)
def revoke_key(services: WithServices, caller: Admin, key_id: str) -> Response:
    """Revoke a key; doing it again changes nothing."""
    for key in services.access.keys(caller.tenant):
        if key.id == key_id:
            if key.revoked_ns is None:
                revoked = msgspec.structs.replace(key, revoked_ns=services.clock.now_ns())
                services.access.put_key(revoked, audit(services, caller, "revoke_key", key_id, {"name": key.name}))
                services.log.info("key revoked", key=key_id, by=caller.actor)
            return Response(status_code=204)
    raise ports.NotFound(key_id)
