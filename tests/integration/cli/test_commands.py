"""Commands against a real service: a crash becomes an incident and a signed page, people act on it, keys close the door."""

import json
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from firstfault_server.cli import commands
from firstfault_server.cli.child import ChildService
from tests.integration.cli.conftest import LOOPBACK, Run, clean_environment
from tests.integration.cli.sending import send_crash
from tests.integration.service.running import wait_for
from tests.unit.alerter.receiver import SECRET, receiving

pytestmark = pytest.mark.integration


def _incident(command: Run, run: str) -> dict[str, Any]:
    deadline = time.monotonic() + 60
    while True:
        status, found = command("incidents", "list", f"run:{run} is:settled")
        assert status == 0
        if found["items"]:
            assert len(found["items"]) == 1
            incident: dict[str, Any] = found["items"][0]
            return incident
        assert time.monotonic() < deadline, "no incident came"
        time.sleep(0.05)


def test_a_crash_becomes_one_page_and_people_act_on_it(service: ChildService, command: Run) -> None:
    with receiving() as receiver:
        status, destination = command("destinations", "add", receiver.url, "--name", "pager", "--secret", SECRET, "--allow-private")
        assert status == 0
        assert command("destinations", "test", destination["id"])[1]["delivered"]
        send_crash(service.otlp_url, "crash-1", "sample 7 has no label")
        incident = _incident(command, "crash-1")
        assert incident["first_fault"]["rank"] == 0
        assert incident["first_fault"]["exception"]["message"] == "sample 7 has no label"
        path = incident["id"]
        for action, state in (("ack", "acknowledged"), ("resolve", "resolved"), ("reopen", "open")):
            status, document = command("incidents", action, path, "--by", "ada")
            assert (status, document["state"]) == (0, state)
        assert command("incidents", "assign", path, "bo")[1]["triage"]["assignee"] == "bo"
        assert command("incidents", "note", path, "looked at it")[1]["triage"]["notes"][0]["text"] == "looked at it"
        assert command("incidents", "mute", path, "--for", "2h")[1]["triage"]["muted_until"] is not None
        assert [item["id"] for item in command("incidents", "list", "is:muted")[1]["items"]] == [path]
        assert command("incidents", "unmute", path)[1]["triage"]["muted_until"] is None
        _wait(lambda: len(receiver.requests) >= 4)
        kinds = [request["body"]["type"] for request in receiver.requests]
        assert kinds == ["test", "incident.opened", "incident.resolved", "incident.corrected"]
        assert receiver.openings == {f"{path}.1"}
        command("destinations", "remove", destination["id"])
    actions = [entry["action"] for entry in command("incidents", "timeline", path)[1]["items"] if entry["what"] == "person"]
    assert actions == ["ack", "resolve", "reopen", "assign", "note", "mute", "unmute"]
    assert command("incidents", "evidence", path)[1]["items"]
    assert command("incidents", "show", path[:12])[1]["id"] == path
    delivered = command("destinations", "deliveries", f"delivered:true destination:{destination['id']}")[1]["items"]
    assert [entry["kind"] for entry in delivered][-1] == "test"


def test_a_silence_keeps_a_page_back_until_it_is_ended(service: ChildService, command: Run) -> None:
    with receiving() as receiver:
        _, destination = command("destinations", "add", receiver.url, "--secret", SECRET, "--allow-private", "--where", "run:quiet-1")
        status, silence = command("silences", "create", "run:quiet-1", "--for", "2h", "--comment", "planned", "--by", "ada")
        assert (status, silence["state"], silence["author"]) == (0, "active", "ada")
        send_crash(service.otlp_url, "quiet-1")
        incident = _incident(command, "quiet-1")
        assert [one["comment"] for one in incident["silences"]] == ["planned"]
        assert silence["id"] in [one["id"] for one in command("silences", "list")[1]["items"]]
        assert receiver.requests == []
        assert command("silences", "expire", silence["id"])[1]["state"] == "ended"
        assert command("silences", "show", silence["id"])[1]["version"] == 2
        assert silence["id"] not in [one["id"] for one in command("silences", "list")[1]["items"]]
        _wait(lambda: receiver.openings == {f"{incident['id']}.1"})
        command("destinations", "remove", destination["id"])
    assert command("incidents", "show", incident["id"])[1]["silences"] == []
    assert command("silences", "create", "run:x", "--comment", "c")[0] == 2


def _wait(holds: Any) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_what_arrived_is_searched(service: ChildService, command: Run) -> None:
    send_crash(service.otlp_url, "crash-2", "the blue cable is loose")
    _incident(command, "crash-2")
    status, found = command("events", "search", 'run:crash-2 "blue cable"')
    assert status == 0
    assert [event["exception"]["message"] for event in found["items"]] == ["the blue cable is loose"]
    assert command("events", "show", found["items"][0]["id"])[1]["run"] == "crash-2"
    _wait(lambda: command("runs", "show", "crash-2")[1]["state"] == "failed")
    assert "crash-2" in [run["id"] for run in command("runs", "list")[1]["items"]]


def test_exit_statuses_say_what_happened(service: ChildService, command: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    send_crash(service.otlp_url, "crash-3")
    _incident(command, "crash-3")
    assert command("incidents", "list", "run:crash-3", "--exit-code")[0] == 1
    assert command("incidents", "list", "run:never", "--exit-code")[0] == 0
    assert command("incidents", "list", "colour:red")[0] == 2
    assert command("incidents", "show", "unknown")[0] == 2
    assert command("incidents", "paint")[0] == 2
    assert command("incidents", "list", "-o", "xml")[0] == 2
    assert command("incidents", "list", "--api-url", "http://127.0.0.1:9")[0] == 4
    assert command("incidents", "list", "--api-url", "nonsense")[0] == 2


def test_keys_close_the_door_and_open_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("HOME", "/nonexistent")

    def run(*argv: str) -> tuple[int, str]:
        capsys.readouterr()
        return commands()[argv[0]].main(list(argv[1:])), capsys.readouterr().out

    made = json.loads(run("keys", "create", "--data", str(tmp_path), "--tenant", "acme")[1])
    with ChildService(tmp_path, ("0.0.0.0:0", *LOOPBACK[1:]), clean_environment()) as service:
        url = service.api_url.replace("0.0.0.0", "127.0.0.1")
        monkeypatch.setenv("FIRSTFAULT_API_URL", url)
        assert run("incidents", "list")[0] == 3
        monkeypatch.setenv("FIRSTFAULT_API_KEY", made["key"])
        assert run("incidents", "list")[0] == 0
        reader = json.loads(run("keys", "create", "--name", "reader", "--scope", "read")[1])
        monkeypatch.setenv("FIRSTFAULT_API_KEY", reader["key"])
        assert run("keys", "list")[0] == 3
        send_crash(service.otlp_url, "keyed", key=made["key"])
        monkeypatch.setenv("FIRSTFAULT_API_KEY", made["key"])
        assert run("keys", "revoke", reader["id"])[0] == 0
        monkeypatch.setenv("FIRSTFAULT_API_KEY", reader["key"])
        assert run("incidents", "list")[0] == 3
    listed = json.loads(run("keys", "list", "--data", str(tmp_path))[1])["items"]
    assert [(key["name"], key["tenant"], key["revoked_at"] is not None) for key in listed] == [
        ("key", "acme", False),
        ("reader", "acme", True),
    ]


def test_the_doctor_follows_one_event(service: ChildService, command: Run) -> None:
    # The engine of the metrics starts after the service; until then the doctor says that it is not ready, and rightly.
    wait_for(lambda: httpx.get(f"{service.api_url}/readyz", timeout=30).status_code == 200, 60, "the service is ready")
    status, found = command("doctor", "--endpoint", service.otlp_url)
    assert [hop["hop"] for hop in found["items"]] == ["api", "ready", "ingest", "query"]
    assert all(hop["ok"] for hop in found["items"]), found
    assert status == 0
    status, found = command("doctor", "--endpoint", "http://127.0.0.1:9")
    assert status == 1
    assert [hop["hop"] for hop in found["items"] if not hop["ok"]] == ["ingest"]
    assert command("incidents", "list", "run:firstfault-doctor")[1]["items"] == []


def test_incidents_are_streamed(service: ChildService, command: Run) -> None:
    with httpx.stream("GET", f"{service.api_url}/v1/stream", params={"q": "run:streamed"}, timeout=60) as stream:
        lines = stream.iter_lines()
        assert next(lines) == ": connected"
        send_crash(service.otlp_url, "streamed")
        data = next(line for line in lines if line.startswith("data: "))
    assert json.loads(data.removeprefix("data: "))["run"]["id"] == "streamed"
