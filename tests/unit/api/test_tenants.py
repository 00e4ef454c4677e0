"""No route shows or changes what another tenant has. The routes are taken from the application: a new one cannot be forgotten."""

import re
from typing import Any

import pytest

from tests.unit.api.stand import Stand, routes_of

PUBLIC = {"/healthz", "/readyz", "/metrics"}
"""Answer everybody, and hold nothing of any tenant."""
IDS = {
    "incident_id": "incident-{}",
    "run_id": "run-{}",
    "event_id": "event-{}",
    "letter_id": "letter-{}",
    "destination_id": "destination-{}",
    "silence_id": "silence-{}",
    "key_id": "ffk_{}-admin",
}
BODIES: dict[str, Any] = {
    "/v1/incidents/{incident_id}/assign": {"assignee": "ada"},
    "/v1/incidents/{incident_id}/notes": {"text": "noted"},
    "/v1/silences": {"where": "node:n-01", "comment": "the node is being replaced", "period": "2h"},
    "/v1/keys": {"name": "new", "scopes": ["read"]},
    "/v1/destinations": {"name": "new", "url": "https://example.com/"},
}
QUERIES = {"/v1/runs/{run_id}/series": {"metric": "train.loss"}}


ROUTES = [(method, route.path_format) for route in routes_of(Stand().app) for method in sorted(route.methods or ())]
ENDLESS = {"/v1/stream"}
"""Answer for ever; `test_stream.py` holds them to the same."""
OWNED = [(method, path) for method, path in ROUTES if path not in PUBLIC]


def _call(stand: Stand, method: str, path: str, key: str, name: str) -> Any:
    filled = re.sub(r"\{(\w+)\}", lambda match: IDS[match.group(1)].format(name), path)
    body = BODIES.get(path, {}) if method in {"POST", "PATCH"} else None
    return stand.client(key).request(method, filled, json=body, params=QUERIES.get(path))


def test_the_routes_of_the_application_are_found() -> None:
    assert len(OWNED) >= 25
    assert ("GET", "/v1/incidents/{incident_id}") in OWNED


@pytest.mark.parametrize(("method", "path"), [(method, path) for method, path in OWNED if path not in ENDLESS])
def test_own_things_are_answered(stand: Stand, method: str, path: str) -> None:
    assert _call(stand, method, path, "ffk_acme-admin", "acme").status_code in {200, 201, 204}


@pytest.mark.parametrize(("method", "path"), [(method, path) for method, path in OWNED if "{" in path])
def test_ids_of_others_do_not_exist(stand: Stand, method: str, path: str) -> None:
    response = _call(stand, method, path, "ffk_acme-admin", "other")
    assert response.status_code == 404
    unknown = _call(stand, method, path, "ffk_acme-admin", "nobody")
    assert unknown.status_code == 404
    assert unknown.json()["detail"] == response.json()["detail"]


@pytest.mark.parametrize(("method", "path"), [(method, path) for method, path in OWNED if method == "GET" and path not in ENDLESS])
def test_answers_hold_nothing_of_others(stand: Stand, method: str, path: str) -> None:
    response = _call(stand, method, path, "ffk_acme-admin", "acme")
    assert "acme" in response.text or path == "/v1/runs/{run_id}/metrics" or path.endswith(("/notes", "/similar"))
    assert "other" not in response.text


@pytest.mark.parametrize(("method", "path"), OWNED)
@pytest.mark.parametrize(("key", "status"), [("", 401), ("ffk_unknown", 401), ("ffk_acme-ingest", 403)])
def test_every_route_needs_a_key_with_a_scope(stand: Stand, method: str, path: str, key: str, status: int) -> None:
    assert _call(stand, method, path, key, "acme").status_code == status


@pytest.mark.parametrize(("method", "path"), [(method, path) for method, path in OWNED if method != "GET"])
def test_a_reader_changes_nothing(stand: Stand, method: str, path: str) -> None:
    assert _call(stand, method, path, "ffk_acme-reader", "acme").status_code == 403
