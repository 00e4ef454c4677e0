"""Who may send: API keys looked up by hash, cached for seconds, and the rule for which addresses may be listened on."""

import asyncio
import hashlib
import ipaddress
import time
from collections.abc import Callable
from typing import Any, Final, TypeVar

import msgspec

from firstfault_server.ports import AccessKey, AccessStore, Permission, StoreUnavailable

T = TypeVar("T")
SCHEME: Final = "bearer "
PREFIX: Final = "ffk_"
CACHE_S: Final = 2.0
"""How long a look-up is believed: a revoked key is refused, and a new one taken, within this time."""
STALE_S: Final = 900.0
"""How long a look-up is believed while the store cannot answer: a key that is revoked meanwhile is taken for so long at most."""
ASK_S: Final = 2.0
"""How long a sender waits for the store."""
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
    """Tells from the `authorization` header who sends. While the store is away, whoever was known stays known for a while."""

    def __init__(
        self,
        store: AccessStore,
        *,
        open_without_keys: bool = True,
        cache_s: float = CACHE_S,
        stale_s: float = STALE_S,
        stale: Callable[[], None] = lambda: None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`open_without_keys`: take everybody while no key was ever made. `stale` is called for each use of an old look-up."""
        self._store, self._open_without_keys, self._monotonic = store, open_without_keys, monotonic
        self._cache_s, self._stale_s, self._stale = cache_s, stale_s, stale
        self._known: dict[str, tuple[float, AccessKey | None]] = {}
        """Time and result of each look-up, by hash."""
        self._keyed: tuple[float, bool] | None = None
        self._asking: dict[str, asyncio.Task[Any]] = {}
        self._failed: tuple[float, StoreUnavailable] | None = None

    async def sender(self, authorization: str | None, scope: Permission = "ingest") -> Sender:
        """Raises Denied, StoreUnavailable."""
        if not authorization:
            return await self._keyless("an API key is needed: authorization: Bearer ffk_…")
        if not authorization.lower().startswith(SCHEME):
            raise Denied(401, "the authorization header is not of the form: Bearer ffk_…")
        secret = authorization[len(SCHEME) :].strip()
        key = await self._key(secret_hash(secret)) if secret.startswith(PREFIX) else None
        if key is None:
            return await self._keyless("this API key is not known")
        if key.revoked_ns is not None:
            raise Denied(401, "this API key was revoked")
        if scope not in key.scopes:
            raise Denied(403, f"this API key lacks the scope {scope}")
        return Sender(tenant=key.tenant, scopes=frozenset(key.scopes), key_id=key.id)

    async def _keyless(self, reason: str) -> Sender:
        if await self._has_keys():
            raise Denied(401, reason)
        if not self._open_without_keys:
            raise Denied(401, "no API key was made yet; make one: firstfault keys create")
        return OPEN

    async def _key(self, hashed: str) -> AccessKey | None:
        now = self._monotonic()
        cached = self._known.get(hashed)
        if cached is not None and now < cached[0] + self._cache_s:
            return cached[1]
        try:
            key: AccessKey | None = await self._ask(hashed, lambda: self._store.key_by_hash(hashed))
        except StoreUnavailable:
            if cached is None or cached[1] is None or now >= cached[0] + self._stale_s:
                raise
            self._stale()
            return cached[1]
        if len(self._known) >= MOST_CACHED:
            self._make_room()
        self._known[hashed] = (now, key)
        return key

    def _make_room(self) -> None:
        """Look-ups of senders that are not known go first: anybody can cause those."""
        self._known = {hashed: found for hashed, found in self._known.items() if found[1] is not None}
        if len(self._known) >= MOST_CACHED:
            self._known.clear()

    async def _has_keys(self) -> bool:
        """Whether a key was ever made; revoking the last one does not open the door."""
        now = self._monotonic()
        if self._keyed is not None and now < self._keyed[0] + self._cache_s:
            return self._keyed[1]
        try:
            self._keyed = (now, bool(await self._ask("", self._store.keys)))
        except StoreUnavailable:
            # Only a yes may be old: it keeps the door shut.
            if self._keyed is None or not self._keyed[1]:
                raise
        return self._keyed[1]

    async def _ask(self, name: str, question: Callable[[], T]) -> T:
        """The store's answer, asked for once for all who wait for it. A store that failed is left alone for a moment."""
        if self._failed is not None and self._monotonic() < self._failed[0] + self._cache_s:
            raise StoreUnavailable(str(self._failed[1]))
        task = self._asking.get(name)
        if task is None:
            task = self._asking[name] = asyncio.create_task(asyncio.to_thread(question))
            task.add_done_callback(lambda done: self._answered(name, done))
        try:
            async with asyncio.timeout(ASK_S):
                answer: T = await asyncio.shield(task)
        except TimeoutError:
            late = StoreUnavailable(f"the keys could not be read within {ASK_S:g} s")
            self._failed = (self._monotonic(), late)
            raise late from None
        self._failed = None
        return answer

    def _answered(self, name: str, task: "asyncio.Task[Any]") -> None:
        del self._asking[name]
        if not task.cancelled() and isinstance(error := task.exception(), StoreUnavailable):
            self._failed = (self._monotonic(), error)
