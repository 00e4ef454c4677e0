"""Dead letters: who may see them, and what of them is shown where."""

import base64
from typing import Any

import pytest
from fastapi.testclient import TestClient

from firstfault_server.core import model
from firstfault_server.core.documents import rfc3339
from firstfault_server.detect.rules import Cell, StageRules
from tests.contract.records import NOW_NS, SECOND_NS, identity
from tests.unit.api.stand import Stand, items


def test_a_list_says_why_and_one_of_them_has_its_bytes(reader: TestClient) -> None:
    (listed,) = items(reader, "/v1/deadletters")
    assert listed == {"id": "letter-acme", "received": rfc3339(NOW_NS), "signal": "logs", "reason": "acme does not parse", "size": 6}
    shown = reader.get("/v1/deadletters/letter-acme").json()
    assert shown == {**listed, "data": base64.b64encode(b"\xff\x00\x1b[2J").decode()}


def test_pages_hold_everything_once(stand: Stand, reader: TestClient) -> None:
    made = [model.DeadLetter(id=f"x{n:02}", tenant="acme", received_ns=NOW_NS + n * SECOND_NS, reason="why") for n in range(1, 8)]
    stand.stores.context.write_dead_letters(made)
    found, cursor = [], None
    while True:
        page = reader.get("/v1/deadletters", params={"limit": 3, **({"cursor": cursor} if cursor else {})}).json()
        found += [item["id"] for item in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert found == [*(f"x{n:02}" for n in range(7, 0, -1)), "letter-acme"]
    stand.clock.time_ns = NOW_NS + 8 * SECOND_NS
    assert [item["id"] for item in items(reader, "/v1/deadletters", period="3s")] == ["x07", "x06", "x05"]


def test_a_cursor_opens_no_other_list_or_tenant(stand: Stand, reader: TestClient) -> None:
    stand.stores.context.write_dead_letters([model.DeadLetter(id="x", tenant="acme", received_ns=NOW_NS + 1, reason="why")])
    cursor = reader.get("/v1/deadletters", params={"limit": 1}).json()["next_cursor"]
    assert stand.client("ffk_other-admin").get("/v1/deadletters", params={"cursor": cursor}).status_code == 400
    assert reader.get("/v1/events", params={"cursor": cursor}).status_code == 400


@pytest.mark.parametrize("parameters", [{"q": "signal:logs"}, {"tenant": "other"}])
def test_nobody_chooses_what_is_not_offered(reader: TestClient, parameters: dict[str, str]) -> None:
    refused = reader.get("/v1/deadletters", params=parameters)
    assert refused.status_code == 400
    assert refused.json()["errors"][0]["reason"] == "no such parameter here"


class Broken:
    """The node stage, failing over a run that is on the node, too."""

    name, eager = "node", False

    def on_batch(self, state: Any, records: Any, now_ns: int) -> Any:
        raise KeyError("run-other")


def test_what_the_node_stage_says_of_a_failure_is_not_shown_since_nodes_have_several_tenants(stand: Stand, reader: TestClient) -> None:
    letters: list[model.DeadLetter] = []
    broken: Any = Broken()
    records: list[Any] = [
        model.Presence(identity=identity(tenant=tenant, run=f"run-{tenant}"), received_ns=NOW_NS) for tenant in ("acme", "other")
    ]
    StageRules(broken, letters.append).batch("cluster/n-01", Cell(None), records, NOW_NS)
    stand.stores.context.write_dead_letters(letters)
    own = letters[0]
    assert "run-other" in own.reason
    shown = reader.get(f"/v1/deadletters/{own.id}")
    assert shown.json()["reason"] == "stage node failed: KeyError (the log of the service says more)"
    assert b"run-acme" in base64.b64decode(shown.json()["data"])
    assert "run-other" not in shown.text + reader.get("/v1/deadletters").text
    assert reader.get(f"/v1/deadletters/{letters[1].id}").status_code == 404
