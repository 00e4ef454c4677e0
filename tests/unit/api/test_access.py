"""Keys and destinations: secrets are shown once, and never again."""

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
