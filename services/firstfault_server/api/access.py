"""Who asks: an API key names tenant and scopes; without any key stored, callers from this machine may do everything."""

import ipaddress
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from firstfault_server.api.problems import Problem
from firstfault_server.api.services import Services, services_of
from firstfault_server.core import access
from firstfault_server.ports import Permission

ALL_SCOPES: frozenset[Permission] = frozenset({"ingest", "node", "read", "write", "admin"})


@dataclass(frozen=True, kw_only=True)
class Principal:
    """The caller after authentication."""

    tenant: str
    actor: str
    scopes: frozenset[Permission]
    keyless: bool = False


def is_loopback(host: str | None) -> bool:
    """Whether an address belongs to this machine; IPv4 in IPv6 counts as what it carries."""
    if not host:
        return False
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)


def authenticate(services: Services, authorization: str | None, client_host: str | None) -> Principal:
    """The caller. Raises Problem 401 without saying whether the key was unknown or revoked."""
    key = access.bearer(authorization)
    if key is not None:
        stored = services.access.key_by_hash(access.secret_hash(key))
        if stored is not None and stored.revoked_ns is None:
            return Principal(tenant=stored.tenant, actor=f"key:{stored.name or stored.id}", scopes=frozenset(stored.scopes))
    if is_loopback(client_host) and not services.access.keys():
        return Principal(tenant=access.DEFAULT_TENANT, actor="local", scopes=ALL_SCOPES, keyless=True)
    raise Problem(401, "a valid API key is needed: authorization: Bearer ffk_…", "key", {"www-authenticate": "Bearer"})


def principal_of(request: Request) -> Principal:
    """Who sent the request, looked up once. Raises Problem 401."""
    known = getattr(request.state, "principal", None)
    if isinstance(known, Principal):
        return known
    client = request.client.host if request.client else None
    principal = authenticate(services_of(request), request.headers.get("authorization"), client)
    request.state.principal = principal
    return principal


def _requires(scope: Permission) -> Callable[[Request], Principal]:
    def dependency(request: Request) -> Principal:
        principal = principal_of(request)
        if scope not in principal.scopes and "admin" not in principal.scopes:
            raise Problem(403, f"this key lacks the scope {scope!r}", "scope")
        return principal

    return dependency


Reader = Annotated[Principal, Depends(_requires("read"))]
Writer = Annotated[Principal, Depends(_requires("write"))]
Admin = Annotated[Principal, Depends(_requires("admin"))]
