"""Keys and destinations: secrets are shown once, and never again."""

from typing import Any

import pytest
from fastapi.testclient import TestClient

from firstfault_server.core import access
from tests.unit.api.stand import Stand, items


def test_a_key_works_until_it_is_revoked_and_only_its_hash_is_kept(stand: Stand, admin: TestClient) -> None:
    made = admin.post("/v1/keys", json={"name": "ci", "scopes": ["read", "read"]}).json()
    assert made["key"].startswith("ffk_") and len(made["key"]) >= 47
    assert made["scopes"] == ["read"]
    stored = next(key for key in stand.stores.access.keys("acme") if key.id == made["id"])
    assert stored.secret_hash == access.secret_hash(made["key"])
    listed = admin.get("/v1/keys").text
    assert made["key"] not in listed and stored.secret_hash not in listed
    client = stand.client(made["key"])
    assert client.get("/v1/incidents").status_code == 200
    for _ in range(2):
        assert admin.delete(f"/v1/keys/{made['id']}").status_code == 204
    assert client.get("/v1/incidents").status_code == 401


def test_a_key_is_made_for_ones_own_tenant_only(admin: TestClient) -> None:
    assert admin.post("/v1/keys", json={"name": "x", "scopes": ["read"], "tenant": "other"}).status_code == 403


@pytest.mark.parametrize("scopes", [[], ["root"], "read", ["read"] * 6])
def test_scopes_are_known_ones(admin: TestClient, scopes: object) -> None:
    assert admin.post("/v1/keys", json={"name": "x", "scopes": scopes}).status_code == 400


def test_a_secret_of_a_destination_is_shown_once(admin: TestClient) -> None:
    made = admin.post("/v1/destinations", json={"name": "pager", "url": "https://example.com/hook"}).json()
    assert made["secret"].startswith("whsec_")
    secret = made["secret"]
    assert secret not in admin.get("/v1/destinations").text
    assert secret not in admin.get(f"/v1/destinations/{made['id']}").text


@pytest.mark.parametrize(
    "change",
    [
        {"url": "ftp://example.com"},
        {"where": "colour:red"},
        {"secret": "short"},
        {"secret": "whsec_!!!!"},
        {"kind": "pigeon"},
        {"name": ""},
    ],
)
def test_a_destination_that_cannot_work_is_refused(admin: TestClient, change: dict[str, str]) -> None:
    body = {"name": "pager", "url": "https://example.com/hook", **change}
    assert admin.post("/v1/destinations", json=body).status_code == 400


def test_a_disabled_destination_can_be_enabled_again(stand: Stand, admin: TestClient) -> None:
    path = "/v1/destinations/destination-acme"
    assert admin.patch(path, json={"enabled": False}).json()["disabled_why"] == "by key:ffk_acme-admin"
    document = admin.patch(path, json={"enabled": True, "where": "is:page run:a"}).json()
    assert (document["enabled"], document["disabled_why"], document["where"]) == (True, "", "is:page run:a")
    assert stand.stores.access.destination("acme", "destination-acme").secret == "whsec_acme"


def test_a_test_message_says_how_it_went(writer: TestClient) -> None:
    document = writer.post("/v1/destinations/destination-acme/test").json()
    assert document["kind"] == "test"


def test_deliveries_are_searched(reader: TestClient) -> None:
    assert [item["error"] for item in items(reader, "/v1/deliveries", q="delivered:false incident:incident-acme")] == ["error of acme"]
    assert items(reader, "/v1/deliveries", q="delivered:true") == []


def _entries(client: TestClient, subject: str) -> list[dict[str, Any]]:
    return items(client, "/v1/audit", q=f"subject:{subject}")[::-1]


def test_changes_of_keys_leave_an_entry_each_without_the_secret(stand: Stand, admin: TestClient) -> None:
    made = admin.post("/v1/keys", json={"name": "ci", "scopes": ["read"]}).json()
    stand.clock.time_ns += 1000
    for _ in range(2):
        admin.delete(f"/v1/keys/{made['id']}")
    entries = _entries(admin, made["id"])
    assert [(entry["actor"], entry["action"]) for entry in entries] == [
        ("key:ffk_acme-admin", "make_key"),
        ("key:ffk_acme-admin", "revoke_key"),
    ]
    assert entries[0]["detail"] == {"name": "ci", "scopes": ["read"]}
    assert made["key"] not in str(entries)


def test_the_entry_of_a_key_is_with_the_tenant_it_opens() -> None:
    stand = Stand(keyed=False)
    made = stand.client().post("/v1/keys", json={"name": "first", "scopes": ["admin"], "tenant": "acme"}).json()
    assert [entry["action"] for entry in _entries(stand.client(made["key"]), made["id"])] == ["make_key"]


def test_changes_of_destinations_leave_an_entry_each_without_the_secret(stand: Stand, admin: TestClient) -> None:
    secret = "whsec_" + "QUJDREVGR0hJSktMTU5PUFFSU1RVVldY"
    made = admin.post("/v1/destinations", json={"name": "pager", "url": "https://example.com/hook", "secret": secret}).json()
    path = f"/v1/destinations/{made['id']}"
    for method, body in (("PATCH", {"where": "is:open"}), ("DELETE", None), ("DELETE", None)):
        stand.clock.time_ns += 1000
        admin.request(method, path, json=body)
    entries = _entries(admin, made["id"])
    assert [entry["action"] for entry in entries] == ["add_destination", "change_destination", "remove_destination"]
    assert entries[0]["detail"]["url"] == entries[2]["detail"]["url"] == "https://example.com/hook"
    assert entries[1]["detail"] == {"where": "is:open"}
    assert secret not in str(entries)
