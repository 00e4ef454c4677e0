"""Who may send: API keys looked up by hash, cached for seconds, and the rule for which addresses may be listened on."""

import asyncio
import hashlib
import ipaddress
import time
from collections.abc import Callable
from typing import Final

import msgspec

from firstfault_server.ports import AccessKey, AccessStore, Permission

SCHEME: Final = "bearer "
PREFIX: Final = "ffk_"
CACHE_S: Final = 2.0
"""How long a look-up is believed: a revoked key is refused, and a new one taken, within this time."""
MOST_CACHED: Final = 10_000
EVERY_SCOPE: Final[frozenset[Permission]] = frozenset({"ingest", "node", "read", "write", "admin"})
DEFAULT_TENANT: Final = "default"


class Denied(Exception):
    """The sender may not: `status` 401 (who are you?) or 403 (not you); the message is fit for the sender."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class Sender(msgspec.Struct, frozen=True, kw_only=True):
    """Whose data arrives and what its key allows."""

    tenant: str
    scopes: frozenset[Permission]
    key_id: str = ""


OPEN: Final = Sender(tenant=DEFAULT_TENANT, scopes=EVERY_SCOPE)
"""Everybody, while no key has ever been made; the service then listens on loopback only (`bind_allowed`)."""


def secret_hash(secret: str) -> str:
    """What the store keeps of a key."""
    return hashlib.sha256(secret.encode()).hexdigest()


def bind_allowed(host: str, has_keys: bool) -> bool:
    """Whether a listener may be bound to this host: any with keys, loopback only without."""
    if has_keys or host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class Access:
    """Tells from the `authorization` header who sends."""

    def __init__(self, store: AccessStore, *, cache_s: float = CACHE_S, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._store, self._cache_s, self._monotonic = store, cache_s, monotonic
        self._known: dict[str, tuple[float, AccessKey | None]] = {}
        self._keyed: tuple[float, bool] = (-1.0, False)

    async def sender(self, authorization: str | None, scope: Permission = "ingest") -> Sender:
        """Raises Denied, StoreUnavailable."""
        if not authorization:
            if await self._has_keys():
                raise Denied(401, "an API key is needed: authorization: Bearer ffk_…")
            return OPEN
        if not authorization.lower().startswith(SCHEME):
            raise Denied(401, "the authorization header is not of the form: Bearer ffk_…")
        secret = authorization[len(SCHEME) :].strip()
        key = await self._key(secret_hash(secret)) if secret.startswith(PREFIX) else None
        if key is None:
            if not await self._has_keys():
                return OPEN
            raise Denied(401, "this API key is not known")
        if key.revoked_ns is not None:
            raise Denied(401, "this API key was revoked")
        if scope not in key.scopes:
            raise Denied(403, f"this API key lacks the scope {scope}")
        return Sender(tenant=key.tenant, scopes=frozenset(key.scopes), key_id=key.id)

    async def _key(self, hashed: str) -> AccessKey | None:
        now = self._monotonic()
        cached = self._known.get(hashed)
        if cached is not None and now < cached[0]:
            return cached[1]
        key = await asyncio.to_thread(self._store.key_by_hash, hashed)
        if len(self._known) >= MOST_CACHED:
            self._known.clear()
        self._known[hashed] = (now + self._cache_s, key)
        return key

    async def _has_keys(self) -> bool:
        """Whether a key was ever made; revoking the last one does not open the door."""
        now = self._monotonic()
        if now >= self._keyed[0]:
            self._keyed = (now + self._cache_s, bool(await asyncio.to_thread(self._store.keys)))
        return self._keyed[1]
