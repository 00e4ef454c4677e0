"""What every AccessStore promises."""

from typing import Any

import pytest

from firstfault_server.ports import AccessKey, Destination, ListQuery, NotFound
from tests.contract.conftest import Stores
from tests.contract.records import audit


def key(number: int, tenant: str = "acme", **changes: Any) -> AccessKey:
    fields: dict[str, Any] = {
        "id": f"k-{number}",
        "tenant": tenant,
        "name": "ci",
        "secret_hash": f"hash-{number}",
        "scopes": ["read"],
        "created_ns": number,
    }
    return AccessKey(**fields | changes)


def destination(number: int, tenant: str = "acme", **changes: Any) -> Destination:
    fields: dict[str, Any] = {
        "id": f"d-{number}",
        "tenant": tenant,
        "name": "pager",
        "url": "https://example.invalid/hook",
        "created_ns": number,
    }
    return Destination(**fields | changes)


def test_keys_are_listed_oldest_first_and_found_by_hash(stores: Stores) -> None:
    for number, tenant in ((2, "acme"), (1, "acme"), (3, "other")):
        stores.access.put_key(key(number, tenant))
    assert stores.access.keys() == [key(1), key(2), key(3, "other")]
    assert stores.access.keys("acme") == [key(1), key(2)]
    assert stores.access.keys("third") == []
    assert stores.access.key_by_hash("hash-3") == key(3, "other")
    assert stores.access.key_by_hash("hash-9") is None


def test_a_key_is_replaced_by_id(stores: Stores) -> None:
    stores.access.put_key(key(1))
    stores.access.put_key(key(1, revoked_ns=5, last_used_ns=4))
    assert stores.access.keys() == [key(1, revoked_ns=5, last_used_ns=4)]
    assert stores.access.key_by_hash("hash-1") == key(1, revoked_ns=5, last_used_ns=4)


def test_destinations_belong_to_a_tenant(stores: Stores) -> None:
    stores.access.put_destination(destination(2))
    stores.access.put_destination(destination(1, secret="whsec_x"))
    stores.access.put_destination(destination(1, "other", name="theirs"))
    assert stores.access.destinations("acme") == [destination(1, secret="whsec_x"), destination(2)]
    assert stores.access.destination("other", "d-1").name == "theirs"
    stores.access.put_destination(destination(2, enabled=False, disabled_why="410 Gone"))
    assert not stores.access.destination("acme", "d-2").enabled
    stores.access.remove_destination("acme", "d-1")
    assert stores.access.destinations("acme") == [destination(2, enabled=False, disabled_why="410 Gone")]
    assert stores.access.destinations("other") == [destination(1, "other", name="theirs")]


def test_unknown_destinations_are_not_found(stores: Stores) -> None:
    stores.access.put_destination(destination(1, "other"))
    with pytest.raises(NotFound):
        stores.access.destination("acme", "d-1")
    with pytest.raises(NotFound):
        stores.access.remove_destination("acme", "d-1")


def test_the_entry_of_a_change_commits_with_it(stores: Stores) -> None:
    def entries() -> list[str]:
        return [entry.id for entry in stores.triage.audit(ListQuery(tenant="acme")).items]

    stores.access.put_key(key(1), audit(1))
    stores.access.put_destination(destination(1), audit(2))
    stores.access.remove_destination("acme", "d-1", audit(3))
    assert entries() == ["a-0003", "a-0002", "a-0001"]
    with pytest.raises(NotFound):
        stores.access.remove_destination("acme", "d-1", audit(4))
    stores.access.put_key(key(1, revoked_ns=1))
    assert entries() == ["a-0003", "a-0002", "a-0001"]
