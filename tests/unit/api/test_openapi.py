"""The OpenAPI document describes what is answered: every JSON answer of a filled service fits the model of its route."""

import re

import pytest
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient
from pydantic import TypeAdapter

from tests.unit.api.stand import Stand, routes_of
from tests.unit.api.test_tenants import BODIES, IDS, QUERIES

MODELLED = [route for route in routes_of(Stand().app) if route.response_model is not None]


@pytest.mark.parametrize("route", MODELLED, ids=lambda route: f"{min(route.methods or ('GET',))} {route.path_format}")
def test_answers_fit_their_models(stand: Stand, route: APIRoute) -> None:
    path = re.sub(r"\{(\w+)\}", lambda match: IDS[match.group(1)].format("acme"), route.path_format)
    method = min(route.methods or ("GET",))
    body = BODIES.get(route.path_format, {}) if method in {"POST", "PATCH"} else None
    response = stand.client("ffk_acme-admin").request(method, path, json=body, params=QUERIES.get(route.path_format))
    assert response.status_code == (route.status_code or 200)
    TypeAdapter(route.response_model).validate_json(response.content)


def test_the_document_is_openapi_3_1_with_problems(reader: TestClient) -> None:
    document = reader.get("/openapi.json").json()
    assert document["openapi"].startswith("3.1")
    operations = [operation for path in document["paths"].values() for operation in path.values()]
    assert len(operations) > 25
    for operation in operations:
        assert "422" not in operation["responses"]
        assert operation["responses"]["400"]["content"]["application/problem+json"]["schema"]["$ref"].endswith("/Problem")
    assert set(document["components"]["schemas"]["Problem"]["required"]) == {"type", "title", "status", "detail", "request_id"}


def test_references_of_the_document_exist(reader: TestClient) -> None:
    document = reader.get("/openapi.json").json()
    names = set(re.findall(r'"#/components/schemas/([^"]+)"', reader.get("/openapi.json").text))
    assert names <= set(document["components"]["schemas"])
