"""People's marks: merged states, compare-and-set, repeated requests, the audit trail."""

import pytest
from fastapi.testclient import TestClient

from firstfault_server.core.documents import rfc3339
from tests.contract.records import NOW_NS, SECOND_NS
from tests.unit.api.stand import Stand, items

PATH = "/v1/incidents/incident-acme"


def test_an_incident_is_acknowledged_resolved_and_reopened(stand: Stand, writer: TestClient) -> None:
    states = [writer.post(f"{PATH}/{action}", json={"by": "ada"}).json()["state"] for action in ("ack", "resolve", "reopen")]
    assert states == ["acknowledged", "resolved", "open"]
    assert writer.get(PATH).json()["triage"]["version"] == 3
    assert [incident.id for incident, _ in stand.changed] == ["incident-acme"] * 3


def test_acknowledging_twice_is_acknowledging_once(writer: TestClient) -> None:
    for _ in range(2):
        document = writer.post(f"{PATH}/ack").json()
    assert document["state"] == "acknowledged"
    assert document["triage"]["ack_by"] == "key:ffk_acme-writer"


@pytest.mark.parametrize(
    ("before", "action", "body"),
    [
        ([], "ack", {}),
        ([], "ack", {"by": "ada"}),
        ([], "resolve", {"by": "ada"}),
        (["resolve"], "ack", {"by": "ada"}),
        (["resolve"], "reopen", {}),
        (["ack"], "reopen", {}),
        ([], "mute", {}),
        ([], "mute", {"until": rfc3339(NOW_NS + 3600 * SECOND_NS)}),
        (["mute"], "mute", {"unmute": True}),
        ([], "assign", {"assignee": "bo"}),
        (["assign"], "assign", {"assignee": None}),
    ],
)
def test_what_is_so_already_is_no_entry_and_no_version(
    before: list[str], action: str, body: dict[str, object], stand: Stand, writer: TestClient
) -> None:
    for earlier in before:
        assert writer.post(f"{PATH}/{earlier}", json={"assignee": "x"} if earlier == "assign" else {}).status_code == 200
    first = writer.post(f"{PATH}/{action}", json=body)
    entries = items(writer, f"{PATH}/timeline")
    assert len([entry for entry in entries if entry["what"] == "person"]) == len(before) + 1
    for _ in range(2):
        stand.clock.time_ns += SECOND_NS
        again = writer.post(f"{PATH}/{action}", json=body)
        assert (again.status_code, again.json(), again.headers["etag"]) == (200, first.json(), first.headers["etag"])
    assert items(writer, f"{PATH}/timeline") == entries


@pytest.mark.parametrize(("action", "marked"), [("ack", "acknowledged"), ("resolve", "resolved")])
def test_the_same_mark_counts_again_when_the_failure_has_come_back_and_from_somebody_else(
    action: str, marked: str, stand: Stand, writer: TestClient
) -> None:
    def people() -> list[str]:
        return [entry["detail"]["by"] for entry in items(writer, f"{PATH}/timeline") if entry["what"] == "person"]

    for by in ("ada", "bo", "bo"):
        stand.clock.time_ns += SECOND_NS
        writer.post(f"{PATH}/{action}", json={"by": by})
    assert sorted(people()) == ["ada", "bo"]
    stored = stand.stores.incidents.incident("acme", "incident-acme")
    stored.revision += 1
    stored.recurrences = 1
    stored.first_fault.time = stand.clock.time_ns + SECOND_NS
    stand.stores.incidents.write_incidents([stored])
    assert writer.get(PATH).json()["state"] == "open"
    stand.clock.time_ns += 2 * SECOND_NS
    assert writer.post(f"{PATH}/{action}", json={"by": "bo"}).json()["state"] == marked
    assert sorted(people()) == ["ada", "bo", "bo"]


def test_a_reopening_of_what_is_open_says_nothing(writer: TestClient) -> None:
    assert writer.post(f"{PATH}/reopen").headers["etag"] == '"0"'
    assert [entry for entry in items(writer, f"{PATH}/timeline") if entry["what"] == "person"] == []


def test_a_repeated_mark_with_an_old_version_is_refused_all_the_same(writer: TestClient) -> None:
    writer.post(f"{PATH}/ack")
    assert writer.post(f"{PATH}/ack", headers={"if-match": '"0"'}).status_code == 412
    assert writer.post(f"{PATH}/ack", headers={"if-match": '"1"'}).status_code == 200


def test_a_mute_ends_by_time_and_by_hand(stand: Stand, writer: TestClient) -> None:
    assert writer.post(f"{PATH}/mute", json={"period": "2h"}).status_code == 200
    assert [item["id"] for item in items(writer, "/v1/incidents", q="is:muted")] == ["incident-acme"]
    stand.clock.time_ns += 7201 * SECOND_NS
    assert items(writer, "/v1/incidents", q="is:muted") == []
    assert writer.post(f"{PATH}/mute").json()["triage"]["muted_until"] is not None
    assert writer.post(f"{PATH}/mute", json={"unmute": True}).json()["triage"]["muted_until"] is None
    assert writer.post(f"{PATH}/mute", json={"unmute": True, "period": "1h"}).status_code == 400


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"until": rfc3339(NOW_NS)}, "until"),
        ({"until": rfc3339(NOW_NS - SECOND_NS)}, "until"),
        ({"until": "1969-12-31T00:00:00Z"}, "until"),
        ({"period": "0h"}, "period"),
    ],
)
def test_a_mute_that_would_end_at_once_is_refused(stand: Stand, writer: TestClient, body: dict[str, str], field: str) -> None:
    refused = writer.post(f"{PATH}/mute", json=body)
    assert refused.status_code == 400
    assert refused.json()["detail"].startswith(f"{field}: ")
    assert writer.get(PATH).json()["triage"]["version"] == 0
    assert stand.changed == []
    assert writer.post(f"{PATH}/mute", json={"until": rfc3339(NOW_NS + SECOND_NS)}).status_code == 200


def test_a_write_with_an_old_version_is_refused(writer: TestClient) -> None:
    version = writer.get(PATH).headers["etag"]
    assert writer.post(f"{PATH}/ack", headers={"if-match": version}).headers["etag"] == '"1"'
    refused = writer.post(f"{PATH}/resolve", headers={"if-match": version})
    assert refused.status_code == 412
    assert writer.get(PATH).json()["state"] == "acknowledged"
    assert writer.post(f"{PATH}/resolve", headers={"if-match": "*"}).status_code == 200
    assert writer.post(f"{PATH}/resolve", headers={"if-match": "one"}).status_code == 400


def test_the_revision_of_detection_is_no_version(stand: Stand, writer: TestClient) -> None:
    tag = writer.get(PATH).headers["etag"]
    stored = stand.stores.incidents.incident("acme", "incident-acme")
    stored.revision += 1
    stand.stores.incidents.write_incidents([stored])
    assert writer.post(f"{PATH}/ack", headers={"if-match": tag}).status_code == 200


def test_a_repeated_request_is_answered_and_not_done_again(writer: TestClient) -> None:
    headers = {"idempotency-key": "k1"}
    first = writer.post(f"{PATH}/notes", json={"text": "seen"}, headers=headers)
    again = writer.post(f"{PATH}/notes", json={"text": "seen"}, headers=headers)
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.content == again.content
    assert first.headers["etag"] == again.headers["etag"]
    assert [note["text"] for note in items(writer, f"{PATH}/notes")] == ["seen"]
    other = writer.post(f"{PATH}/notes", json={"text": "something else"}, headers=headers)
    assert other.status_code == 400
    assert other.json()["type"].endswith(":idempotency")


def test_keys_of_different_people_do_not_meet(writer: TestClient, admin: TestClient) -> None:
    for client, text in ((writer, "of the writer"), (admin, "of the admin")):
        assert client.post(f"{PATH}/notes", json={"text": text}, headers={"idempotency-key": "k1"}).status_code == 201
    assert [note["text"] for note in items(writer, f"{PATH}/notes")] == ["of the writer", "of the admin"]


def test_a_note_is_found_again_when_its_answer_was_lost(stand: Stand, writer: TestClient) -> None:
    headers = {"idempotency-key": "k1"}
    remembered = stand.stores.triage.remember
    stand.stores.triage.remember = lambda *_: None  # type: ignore[method-assign]
    writer.post(f"{PATH}/notes", json={"text": "once"}, headers=headers)
    stand.stores.triage.remember = remembered  # type: ignore[method-assign]
    writer.post(f"{PATH}/notes", json={"text": "once"}, headers=headers)
    assert len(items(writer, f"{PATH}/notes")) == 1
    assert [entry["action"] for entry in items(writer, f"{PATH}/timeline") if entry["what"] == "person"] == ["note"]


def test_every_change_is_in_the_timeline_with_its_author(writer: TestClient) -> None:
    writer.post(f"{PATH}/ack", json={"by": "ada"})
    writer.post(f"{PATH}/assign", json={"assignee": "bo"})
    entries = items(writer, f"{PATH}/timeline")
    people = [entry for entry in entries if entry["what"] == "person"]
    assert sorted(entry["action"] for entry in people) == ["ack", "assign"]
    assert {entry["actor"] for entry in people} == {"key:ffk_acme-writer"}
    assert {entry["what"] for entry in entries} == {"person", "detected", "message"}


def test_unknown_members_and_wrong_types_are_named(writer: TestClient) -> None:
    response = writer.post(f"{PATH}/ack", json={"bye": "ada"})
    assert response.status_code == 400
    assert response.json()["errors"] == [{"in": "body.bye", "reason": "Extra inputs are not permitted"}]
    assert writer.post(f"{PATH}/notes", json={"text": 7}).status_code == 400
    assert writer.post(f"{PATH}/notes", content=b"{not json", headers={"content-type": "application/json"}).status_code == 400


def test_a_resolve_holds_until_the_failure_recurs(stand: Stand, writer: TestClient) -> None:
    writer.post(f"{PATH}/resolve")
    stored = stand.stores.incidents.incident("acme", "incident-acme")
    stored.revision += 1
    stand.stores.incidents.write_incidents([stored])
    assert writer.get(PATH).json()["state"] == "resolved"
    stored.revision += 1
    stored.recurrences = 1
    stored.first_fault.time = NOW_NS + 60 * SECOND_NS
    stand.stores.incidents.write_incidents([stored])
    assert writer.get(PATH).json()["state"] == "open"
