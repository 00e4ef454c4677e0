"""Who may send while the store of keys is away, and with no key made yet."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

from firstfault_server.adapters.memory.access import MemoryAccessStore
from firstfault_server.adapters.memory.state import State
from firstfault_server.ingest import access
from firstfault_server.ingest.access import CACHE_S, STALE_S, Access, Denied, secret_hash
from firstfault_server.ports import AccessKey, StoreUnavailable
from tests.unit.wire.requests import NOW

AWAY = StoreUnavailable("the store is away")


class Store(MemoryAccessStore):
    """Counts questions; can be away, or hang."""

    def __init__(self) -> None:
        super().__init__(State())
        self.away = False
        self.asked = 0
        self.answering = threading.Event()
        self.answering.set()

    def key_by_hash(self, secret_hash: str) -> AccessKey | None:
        self._ask()
        return super().key_by_hash(secret_hash)

    def keys(self, tenant: str | None = None) -> list[AccessKey]:
        self._ask()
        return super().keys(tenant)

    def _ask(self) -> None:
        self.asked += 1
        self.answering.wait(60)
        if self.away:
            raise AWAY


class Desk:
    """Access over a store, and a clock that is moved by hand."""

    def __init__(self, open_without_keys: bool = True) -> None:
        self.store = Store()
        self.seconds = 0.0
        self.stale = 0
        self.access = Access(self.store, open_without_keys=open_without_keys, stale=self._stale, monotonic=lambda: self.seconds)

    def _stale(self) -> None:
        self.stale += 1

    def key(self, name: str, revoked: bool = False) -> None:
        self.store.put_key(
            AccessKey(
                id=name, tenant="acme", name=name, secret_hash=secret_hash(f"ffk_{name}"), scopes=["ingest"], created_ns=NOW,
                revoked_ns=NOW if revoked else None,
            )
        )  # fmt: skip

    def enter(self, name: str | None) -> str:
        """Tenant, or why not."""

        async def enter() -> str:
            try:
                return (await self.access.sender(None if name is None else f"Bearer ffk_{name}")).tenant
            except (Denied, StoreUnavailable) as error:
                return str(error)

        return asyncio.run(enter())


@pytest.fixture
def desk() -> Iterator[Desk]:
    """With one key that was used a moment ago."""
    made = Desk()
    made.key("one")
    assert made.enter("one") == "acme"
    yield made
    made.store.answering.set()


def test_who_was_known_stays_known_for_a_while(desk: Desk) -> None:
    desk.store.away = True
    desk.seconds = CACHE_S + 1
    assert desk.enter("one") == "acme"
    assert desk.enter("two") == str(AWAY)
    desk.seconds = STALE_S - 1
    assert desk.enter("one") == "acme"
    assert desk.stale == 2
    desk.seconds = STALE_S + 1
    assert desk.enter("one") == str(AWAY)


def test_a_revoked_key_is_refused_once_the_store_is_back(desk: Desk) -> None:
    desk.store.away = True
    desk.seconds = 100
    assert desk.enter("one") == "acme"
    desk.key("one", revoked=True)
    desk.store.away = False
    desk.seconds += CACHE_S
    assert desk.enter("one") == "this API key was revoked"


def test_a_store_that_failed_is_left_alone_for_a_moment(desk: Desk) -> None:
    desk.store.away = True
    desk.seconds = 100
    before = desk.store.asked
    for _ in range(5):
        assert desk.enter("one") == "acme"
        assert desk.enter("two") == str(AWAY)
    assert desk.store.asked == before + 1


def test_a_store_that_hangs_does_not_hold_up_who_is_known(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "ASK_S", 0.05)
    desk.seconds = 100
    desk.store.answering.clear()

    async def enter() -> list[str]:
        senders = [desk.access.sender("Bearer ffk_one") for _ in range(20)]
        try:
            return [sender.tenant for sender in await asyncio.gather(*senders)]
        finally:
            desk.store.answering.set()

    before = desk.store.asked
    assert asyncio.run(enter()) == ["acme"] * 20
    assert desk.store.asked == before + 1, "asked once for all"


def test_strangers_do_not_push_out_who_is_known(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "MOST_CACHED", 10)
    for number in range(25):
        desk.enter(f"stranger-{number}")
    desk.store.away = True
    desk.seconds = 100
    assert desk.enter("one") == "acme"


def test_the_door_stays_shut_while_nobody_can_be_asked(desk: Desk) -> None:
    assert desk.enter(None).startswith("an API key is needed")
    desk.store.away = True
    desk.seconds = 10 * STALE_S
    assert desk.enter(None).startswith("an API key is needed")
    fresh = Desk()
    fresh.store.away = True
    assert fresh.enter(None) == str(AWAY)


def test_without_any_key_only_a_closed_network_is_open() -> None:
    assert Desk().enter(None) == "default"
    closed = Desk(open_without_keys=False)
    assert closed.enter(None).startswith("no API key was made yet")
    assert closed.enter("two").startswith("no API key was made yet")
