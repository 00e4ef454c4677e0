"""Errors: problem documents with a request id, hosts and origins, stores that are down."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from fastapi.testclient import TestClient
from prometheus_client import CollectorRegistry

from firstfault_server import ports
from firstfault_server.api.app import attach, create_app
from tests.unit.api.stand import Stand

MEMBERS = {"type", "title", "status", "detail", "request_id"}


@pytest.mark.parametrize(
    ("call", "status"),
    [
        (lambda client: client.get("/nothing"), 404),
        (lambda client: client.get("/v1/incidents/nothing"), 404),
        (lambda client: client.delete("/v1/incidents"), 405),
        (lambda client: client.get("/v1/incidents", params={"limit": "x"}), 400),
        (lambda client: client.get("/v1/keys"), 403),
        (lambda client: client.get("/v1/incidents", headers={"authorization": "Bearer ffk_wrong"}), 401),
        (lambda client: client.get("/v1/incidents", headers={"authorization": "Basic eDp5"}), 401),
        (lambda client: client.get("/v1/incidents", headers={"origin": "https://evil.example"}), 403),
    ],
)
def test_every_error_is_a_problem(reader: TestClient, call: Callable[[TestClient], Any], status: int) -> None:
    response = call(reader)
    assert response.status_code == status
    assert response.headers["content-type"] == "application/problem+json"
    document = response.json()
    assert document.keys() >= MEMBERS
    assert document["status"] == status
    assert document["request_id"] == response.headers["x-request-id"]


@pytest.mark.parametrize("chunked", [True, False])
def test_bodies_are_bounded(writer: TestClient, chunked: bool) -> None:
    body = b'{"text": "' + b"x" * (2 << 20) + b'"}'
    content: Any = iter([body[:100], body[100:]]) if chunked else body
    response = writer.post("/v1/incidents/incident-acme/notes", content=content, headers={"content-type": "application/json"})
    assert response.status_code == 413
    assert response.json().keys() >= MEMBERS


def test_a_failure_of_the_service_is_a_problem_too(stand: Stand, reader: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("internal detail")

    monkeypatch.setattr(stand.stores.incidents, "incidents", broken)
    response = reader.get("/v1/incidents")
    assert response.status_code == 500
    assert response.json().keys() >= MEMBERS
    assert "internal detail" not in response.text


def test_a_store_that_is_down_is_503(stand: Stand, reader: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def down(*_: object) -> None:
        raise ports.StorageFull("no space left for firstfault.sqlite")

    monkeypatch.setattr(stand.stores.context, "events", down)
    response = reader.get("/v1/events")
    assert response.status_code == 503
    assert response.headers["retry-after"] == "5"
    assert "no space left" in response.json()["detail"]
    assert reader.get("/v1/incidents").status_code == 200


def test_ranks_are_shown_without_figures_while_numbers_are_away(stand: Stand, reader: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = reader.get("/v1/runs/run-acme/ranks", params={"metric": "loss"}).json()
    assert not whole["partial"]
    assert whole["items"][0]["figures"]["count"] == 1

    def down(*_: object) -> None:
        raise ports.StoreUnavailable("ClickHouse is away")

    for question in ("ranks", "metrics", "series"):
        monkeypatch.setattr(stand.stores.aggregates, question, down)
    for metric in ("loss", "train.loss"):
        answer = reader.get("/v1/runs/run-acme/ranks", params={"metric": metric})
        assert answer.status_code == 200
        assert answer.json() == {**whole, "items": [{**item, "figures": None} for item in whole["items"]], "partial": True}
    assert not reader.get("/v1/runs/run-acme/ranks").json()["partial"], "what was not asked for is not missing"
    # Of these nothing would be left.
    assert reader.get("/v1/runs/run-acme/series", params={"metric": "loss"}).status_code == 503
    assert reader.get("/v1/runs/run-acme/metrics").status_code == 503


def test_readiness_says_what_is_missing(stand: Stand) -> None:
    client = stand.client()
    assert client.get("/readyz").status_code == 200
    stand.problems["detection"] = "the disk is full"
    response = client.get("/readyz")
    assert response.status_code == 503
    assert response.json()["problems"] == {"detection": "the disk is full"}
    assert client.get("/healthz").status_code == 200
    stand.problems["detection"] = ""
    assert client.get("/readyz").json() == {"status": "ok"}


def test_what_only_some_requests_need_takes_no_replica_out(stand: Stand) -> None:
    client = stand.client()
    stand.degraded |= {"metrics": "ClickHouse is away", "stream": ""}
    response = client.get("/readyz")
    assert response.status_code == 200
    assert response.json() == {"status": "degraded", "problems": {"metrics": "ClickHouse is away"}}
    stand.problems["elasticsearch"] = "no answer"
    response = client.get("/readyz")
    assert response.status_code == 503
    assert response.json() == {"status": "not ready", "problems": {"elasticsearch": "no answer", "metrics": "ClickHouse is away"}}


def test_requests_are_counted_by_route_and_never_by_path(stand: Stand, reader: TestClient) -> None:
    reader.get("/v1/incidents/incident-acme")
    reader.get("/v1/random/1")
    text = reader.get("/metrics").text
    assert 'firstfault_api_requests_total{method="GET",route="/v1/incidents/{incident_id}",status="200"} 1.0' in text
    assert "random" not in text


# ---- without keys -------------------------------------------------------------------------------------------------------


@pytest.fixture
def open_stand() -> Stand:
    return Stand(keyed=False)


def test_without_keys_this_machine_may_do_everything(open_stand: Stand) -> None:
    assert open_stand.client().get("/v1/keys").status_code == 200
    assert open_stand.client("ffk_stale").get("/v1/keys").status_code == 200
    assert open_stand.client(host="::1").get("/v1/keys").status_code == 200
    assert open_stand.client(host="::ffff:127.0.0.1").get("/v1/keys").status_code == 200


@pytest.mark.parametrize("host", ["10.0.0.7", "192.168.1.1", "2001:db8::1", "localhost.evil"])
def test_without_keys_other_machines_may_do_nothing(open_stand: Stand, host: str) -> None:
    assert open_stand.client(host=host).get("/v1/keys").status_code == 401


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8080", "127.0.0.1.evil.example", ""])
def test_without_keys_a_foreign_host_name_is_refused(open_stand: Stand, host: str) -> None:
    response = open_stand.client().get("/v1/incidents", headers={"host": host})
    assert response.status_code == 403
    assert response.json()["type"].endswith(":origin")


FOREIGN = ["evil.example", "evil.example:8080", "127.0.0.1.evil.example", "localhost.evil.example", "2130706433", "[::1", ""]


@pytest.mark.parametrize("host", FOREIGN)
@pytest.mark.parametrize("client", ["127.0.0.1", "10.0.0.7"])
@pytest.mark.parametrize("key", ["", "ffk_made-up", "ffk_acme-admin"])
@pytest.mark.parametrize("keyed", [True, False])
def test_a_name_that_is_not_ours_is_refused_whatever_else_is_sent(host: str, client: str, key: str, keyed: bool) -> None:
    response = Stand(keyed=keyed).client(key, client).get("/v1/incidents", headers={"host": host, "origin": f"http://{host}"})
    assert response.status_code == 403
    assert response.json()["type"].endswith(":origin")


@pytest.mark.parametrize(
    "host",
    ["localhost", "LOCALHOST:8080", "127.0.0.1:1", "[::1]:8080", "10.0.0.7:8080", "[2001:db8::1]", "api.example", "Trainer.Example.:80"],
)
def test_addresses_and_our_own_names_are_served(host: str) -> None:
    stand = Stand()
    attach(stand.app, replace(stand.services, allowed_hosts=frozenset({"trainer.EXAMPLE"}), registry=CollectorRegistry()))
    assert stand.client("ffk_acme-admin", "10.0.0.9").get("/v1/incidents", headers={"host": host}).status_code == 200


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://localhost:1", "http://[bad"])
def test_pages_of_other_origins_are_refused(open_stand: Stand, origin: str) -> None:
    assert open_stand.client().post("/v1/keys", headers={"origin": origin}).status_code == 403


def test_pages_of_the_same_origin_are_served(open_stand: Stand) -> None:
    assert open_stand.client().get("/v1/incidents", headers={"origin": "http://localhost"}).status_code == 200


def test_the_first_key_must_be_able_to_make_others(open_stand: Stand) -> None:
    client = open_stand.client()
    assert client.post("/v1/keys", json={"name": "a", "scopes": ["read"]}).status_code == 400
    made = client.post("/v1/keys", json={"name": "a", "scopes": ["admin"], "tenant": "acme"})
    assert made.status_code == 201
    assert client.get("/v1/incidents").status_code == 401
    assert open_stand.client(made.json()["key"]).get("/v1/keys").json()["items"][0]["tenant"] == "acme"


def test_revoking_the_last_key_opens_nothing(open_stand: Stand) -> None:
    made = open_stand.client().post("/v1/keys", json={"name": "a", "scopes": ["admin"]}).json()
    assert open_stand.client(made["key"]).delete(f"/v1/keys/{made['id']}").status_code == 204
    assert open_stand.client(made["key"]).get("/v1/keys").status_code == 401
    assert open_stand.client().get("/v1/keys").status_code == 401


def test_pages_of_allowed_origins_may_read_answers() -> None:
    origin = "https://console.example"
    stand = Stand(keyed=False)
    services = replace(stand.services, allowed_origins=frozenset({origin}), registry=CollectorRegistry())
    client = TestClient(create_app(services), base_url="http://localhost", client=("127.0.0.1", 50_000))
    answer = client.get("/v1/incidents", headers={"origin": origin})
    assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, origin)
    asked = {"origin": origin, "access-control-request-method": "POST", "access-control-request-headers": "if-match"}
    assert client.options("/v1/incidents/x/ack", headers=asked).status_code == 200
    assert client.get("/v1/incidents", headers={"origin": "https://evil.example"}).status_code == 403
