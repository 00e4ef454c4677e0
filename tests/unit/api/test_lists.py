"""Lists: pages, cursors, times, searches."""

import re

import pytest
from fastapi.testclient import TestClient

from firstfault_server.core import model
from firstfault_server.core.documents import rfc3339
from tests.contract.records import NOW_NS, SECOND_NS, event, incident, rollup, run
from tests.unit.api.stand import Stand, items, routes_of
from tests.unit.api.test_tenants import IDS, QUERIES


def _ids(stand: Stand, count: int) -> list[str]:
    stand.stores.incidents.write_incidents([incident(number, id=f"i{number:03}", run=_run("many")) for number in range(count)])
    return [f"i{number:03}" for number in reversed(range(count))]


def _run(name: str) -> model.RunRef:
    return model.RunRef(id=name)


def test_pages_hold_everything_once_while_data_arrives(stand: Stand, reader: TestClient) -> None:
    expected = _ids(stand, 25)
    found: list[str] = []
    cursor: str | None = None
    while True:
        page = reader.get("/v1/incidents", params={"q": "run:many", "limit": 4, **({"cursor": cursor} if cursor else {})}).json()
        found += [item["id"] for item in page["items"]]
        stand.stores.incidents.write_incidents([incident(100 + len(found), id=f"late{len(found)}", run=_run("many"))])
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert found == expected


@pytest.mark.parametrize(
    "changed",
    [{"q": "run:other"}, {"q": "run:many", "since": rfc3339(NOW_NS)}, {"q": "run:many", "period": "1h"}],
)
def test_a_cursor_is_bound_to_its_filters(stand: Stand, reader: TestClient, changed: dict[str, str]) -> None:
    _ids(stand, 10)
    cursor = reader.get("/v1/incidents", params={"q": "run:many", "limit": 4}).json()["next_cursor"]
    refused = reader.get("/v1/incidents", params={**changed, "cursor": cursor})
    assert refused.status_code == 400
    assert refused.json()["type"].endswith(":cursor")


def test_a_cursor_is_bound_to_its_list_and_tenant(stand: Stand, reader: TestClient) -> None:
    _ids(stand, 10)
    cursor = reader.get("/v1/incidents", params={"limit": 4}).json()["next_cursor"]
    assert reader.get("/v1/runs", params={"cursor": cursor}).status_code == 400
    assert stand.client("ffk_other-admin").get("/v1/incidents", params={"cursor": cursor}).status_code == 400


@pytest.mark.parametrize("cursor", ["", "x", "AAAA", "é", "A" * 2000, "!!!!"])
def test_garbage_is_no_cursor(reader: TestClient, cursor: str) -> None:
    assert reader.get("/v1/incidents", params={"cursor": cursor}).status_code == 400


def test_a_changed_cursor_is_refused(stand: Stand, reader: TestClient) -> None:
    _ids(stand, 10)
    cursor = reader.get("/v1/incidents", params={"limit": 4}).json()["next_cursor"]
    for place in range(0, len(cursor), 7):
        changed = cursor[:place] + ("A" if cursor[place] != "A" else "B") + cursor[place + 1 :]
        assert reader.get("/v1/incidents", params={"limit": 4, "cursor": changed}).status_code == 400


def test_a_period_keeps_its_meaning_over_pages(stand: Stand, reader: TestClient) -> None:
    _ids(stand, 10)
    stand.clock.time_ns = NOW_NS + 9 * SECOND_NS
    first = reader.get("/v1/incidents", params={"q": "run:many", "period": "9s", "limit": 5}).json()
    stand.clock.time_ns += 6 * SECOND_NS
    second = reader.get("/v1/incidents", params={"q": "run:many", "period": "9s", "limit": 50, "cursor": first["next_cursor"]}).json()
    assert [item["id"] for item in first["items"] + second["items"]] == [f"i{number:03}" for number in reversed(range(10))]


def test_times_are_half_open(stand: Stand, reader: TestClient) -> None:
    _ids(stand, 10)
    found = items(reader, "/v1/incidents", q="run:many", since=rfc3339(NOW_NS + 3 * SECOND_NS), until=rfc3339(NOW_NS + 6 * SECOND_NS))
    assert [item["id"] for item in found] == ["i005", "i004", "i003"]


@pytest.mark.parametrize(
    "parameters",
    [
        {"since": "yesterday"},
        {"since": "2026-11-29T10:00:00"},
        {"since": "2026-11-29T10:00:00Z", "until": "2026-11-28T10:00:00Z"},
        {"period": "24"},
        {"period": "-1h"},
        {"period": "1h", "since": "2026-11-29T10:00:00Z"},
        {"limit": "0"},
        {"limit": "201"},
        {"limit": "many"},
        {"q": "is:nothing"},
        {"q": "(run:a"},
    ],
)
def test_what_cannot_be_meant_is_refused(reader: TestClient, parameters: dict[str, str]) -> None:
    response = reader.get("/v1/incidents", params=parameters)
    assert response.status_code == 400
    assert response.headers["content-type"] == "application/problem+json"


def test_a_search_that_does_not_parse_says_where(reader: TestClient) -> None:
    document = reader.get("/v1/incidents", params={"q": "is:open colour:red"}).json()
    assert document["position"] == 8
    assert "colour" in document["detail"]


def test_events_are_searched_by_text_and_key(stand: Stand, reader: TestClient) -> None:
    stand.stores.context.write_events([event(5, id="e5", body="the cable is loose", rank=3), event(6, id="e6", body="nothing", rank=4)])
    assert [item["id"] for item in items(reader, "/v1/events", q='"cable is"')] == ["e5"]
    assert [item["id"] for item in items(reader, "/v1/events", q="rank:>3")] == ["e6"]
    assert [item["id"] for item in items(reader, "/v1/events", q="rank:3 OR rank:4")] == ["e6", "e5"]


def test_numbers_that_json_cannot_write_are_strings(reader: TestClient) -> None:
    assert items(reader, "/v1/events")[0]["attributes"] == {"loss": "NaN", "list": [1, "a"]}
    assert reader.get("/v1/incidents/incident-acme").json()["impact"]["idle_s"] == "Infinity"


def test_a_series_is_found_by_its_short_name(reader: TestClient) -> None:
    document = reader.get("/v1/runs/run-acme/series", params={"metric": "loss"}).json()
    assert document["metric"] == "train.loss"
    assert document["items"][0]["points"][0]["mean"] == 1.0
    assert reader.get("/v1/runs/run-acme/metrics").json()["items"] == ["train.loss"]
    assert items(reader, "/v1/runs/run-acme/series", metric="never.sent") == []
    assert items(reader, "/v1/runs/run-acme/ranks", metric="loss")[0]["figures"]["last"] == 1.0


# ---- numbers of a run ---------------------------------------------------------------------------------------------------


NAMES = [f"m{number:03}" for number in range(450)] + ["x" * 3000, "x" * 3000 + "y", "\u00e9" * 1000]


@pytest.fixture
def wide(stand: Stand) -> Stand:
    """A run of 450 ranks and two processes without one, that has sent many metrics."""
    places: list[int | None] = [*range(450), None, None]
    ranks = [model.RankStatus(rank=rank, process=f"p{number}", node="n") for number, rank in enumerate(places)]
    stand.stores.incidents.write_runs([run(2, run="wide", ranks=ranks)])
    each = [rollup(1, run="wide", process=f"p{number}", rank=rank, metric="train.loss") for number, rank in enumerate(places)]
    stand.stores.aggregates.write_rollups(each + [rollup(1, run="wide", process="p0", rank=0, metric=name) for name in NAMES])
    return stand


def _pages(client: TestClient, path: str, **parameters: object) -> list[list[object]]:
    pages: list[list[object]] = []
    cursor: str | None = None
    while not pages or cursor is not None:
        response = client.get(path, params={**parameters, **({"cursor": cursor} if cursor else {})})
        assert response.status_code == 200, response.text
        pages.append(response.json()["items"])
        cursor = response.json()["next_cursor"]
    return pages


@pytest.mark.parametrize("limit", [75, 151, None])
@pytest.mark.parametrize(("path", "more"), [("metrics", {}), ("ranks", {}), ("ranks", {"metric": "loss"}), ("series", {"metric": "loss"})])
def test_numbers_of_a_run_come_in_pages(wide: Stand, reader: TestClient, path: str, more: dict[str, str], limit: int | None) -> None:
    pages = _pages(reader, f"/v1/runs/wide/{path}", **more, **({"limit": limit} if limit else {}))
    assert {len(page) for page in pages[:-1]} == {limit or 200}
    assert 0 < len(pages[-1]) <= (limit or 200)
    found = [item for page in pages for item in page]
    if path == "metrics":
        assert sorted(map(str, found)) == sorted([*NAMES, "train.loss"])
    else:
        assert [item["process"] for item in found if isinstance(item, dict)] == [f"p{number}" for number in range(452)]


def test_pages_of_numbers_hold_everything_once_while_data_arrives(wide: Stand, reader: TestClient) -> None:
    first = reader.get("/v1/runs/wide/metrics", params={"limit": 100}).json()
    wide.stores.aggregates.write_rollups([rollup(2, run="wide", process="p0", rank=0, metric=name) for name in ("a", "m099a")])
    second = reader.get("/v1/runs/wide/metrics", params={"limit": 100, "cursor": first["next_cursor"]}).json()
    assert first["items"] + second["items"] == [*NAMES[:100], "m099a", *NAMES[100:199]]


@pytest.mark.parametrize(
    ("path", "parameters"),
    [("runs/run-acme/metrics", {}), ("runs/wide/ranks", {}), ("runs/wide/series", {"metric": "loss"})],
)
def test_a_cursor_of_numbers_is_bound_to_them(wide: Stand, reader: TestClient, path: str, parameters: dict[str, str]) -> None:
    cursor = reader.get("/v1/runs/wide/metrics", params={"limit": 4}).json()["next_cursor"]
    assert reader.get(f"/v1/{path}", params={**parameters, "cursor": cursor}).status_code == 400


# ---- every route --------------------------------------------------------------------------------------------------------


ROUTES = [
    (method, route.path_format)
    for route in routes_of(Stand().app)
    for method in sorted(route.methods or ())
    if route.path_format.startswith("/v1/")
]
LISTS = [
    route.path_format
    for route in routes_of(Stand().app)
    if "next_cursor" in getattr(route.response_model, "model_fields", {}) and "GET" in (route.methods or ())
]


def _path(template: str) -> str:
    return re.sub(r"\{(\w+)\}", lambda match: IDS[match.group(1)].format("acme"), template)


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_a_query_parameter_that_is_not_known_is_named(stand: Stand, method: str, path: str) -> None:
    asked = {**QUERIES.get(path, {}), "perriod": "1h", "LIMIT": "5"}
    refused = stand.client("ffk_acme-admin").request(method, _path(path), params=asked)
    assert refused.status_code == 400
    assert [error["in"] for error in refused.json()["errors"]] == ["query.perriod", "query.LIMIT"]
    assert stand.client().request(method, _path(path), params=asked).status_code == 401


def test_the_lists_of_the_application_are_found() -> None:
    assert len(LISTS) >= 15


@pytest.mark.parametrize("path", LISTS)
def test_every_list_has_a_limit_and_a_cursor(stand: Stand, path: str) -> None:
    client = stand.client("ffk_acme-admin")
    assert len(items(client, _path(path), **QUERIES.get(path, {}), limit=1)) <= 1
    for wrong in ({"limit": 0}, {"limit": 201}, {"cursor": "garbage"}):
        assert client.get(_path(path), params={**QUERIES.get(path, {}), **wrong}).status_code == 400


@pytest.mark.parametrize("path", ["/v1/destinations", "/v1/keys", "/v1/nodes", "/v1/incidents/incident-acme/notes"])
def test_small_lists_come_in_pages_too(stand: Stand, path: str) -> None:
    client = stand.client("ffk_acme-admin")
    for number in range(4):
        client.post("/v1/destinations", json={"name": f"d{number}", "url": "https://example.com/"})
        client.post("/v1/incidents/incident-acme/notes", json={"text": f"n{number}"})
    stand.stores.incidents.write_runs([run(3, run="nodes", nodes=[f"n{number}" for number in range(4)])])
    whole = items(client, path)
    assert len(whole) >= 4
    assert [item for page in _pages(client, path, limit=3) for item in page] == whole


def test_the_end_of_a_process_is_no_error_of_its_own(stand: Stand, reader: TestClient) -> None:
    before = items(reader, "/v1/fingerprints")
    end = event(7, event_name="train.exit", fingerprint="of the tail", symptom="cuda_error", body="exited with code 1")
    stand.stores.context.write_events([end, event(8, event_name="train.log", fingerprint="of a line", body="CUDA error")])
    found = items(reader, "/v1/fingerprints")
    assert [one["fingerprint"] for one in found] == ["of a line", *(one["fingerprint"] for one in before)]
    assert items(reader, "/v1/fingerprints", q="event:train.exit") == []


def test_a_run_whose_id_holds_slashes_can_be_opened(stand: Stand) -> None:
    stand.stores.incidents.write_runs([run(3, run="team/llm-7b")])
    client = stand.client("ffk_acme-admin")
    assert client.get("/v1/runs/team%2Fllm-7b").json()["id"] == "team/llm-7b"
    assert client.get("/v1/runs/team%2Fllm-7b/metrics").status_code == 200
    assert client.get("/v1/runs/team%2Fllm-7b/nothing").status_code == 404
