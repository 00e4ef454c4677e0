"""The beginning of an id stands for it while it is the only one."""

from typing import Any

import pytest

from firstfault_server.cli import commands
from firstfault_server.cli.client import Client

FIRST, SECOND = "abcdef01" + "0" * 24, "abcdef02" + "0" * 24


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Paths of the requests that follow, each answered with nothing more."""
    paths: list[str] = []

    def request(_client: Client, method: str, path: str, **_: Any) -> Any:
        if (method, path) == ("GET", "/v1/incidents"):
            return {"items": [{"id": FIRST}, {"id": SECOND}], "next_cursor": None}
        paths.append(path)
        return {"items": [], "next_cursor": None}

    monkeypatch.setenv("HOME", "/nonexistent")
    monkeypatch.setattr(Client, "request", request)
    return paths


@pytest.mark.parametrize(
    ("action", "more"),
    [("show", []), ("ack", []), ("resolve", []), ("reopen", []), ("mute", []), ("unmute", []), ("assign", ["bo"]), ("note", ["x"]),
     ("timeline", []), ("evidence", []), ("similar", [])],
)  # fmt: skip
def test_a_beginning_that_one_id_has_stands_for_it(action: str, more: list[str], asked: list[str]) -> None:
    assert commands()["incidents"].main([action, SECOND[:8], *more, "-o", "json"]) == 0
    assert [path.split("/")[3] for path in asked] == [SECOND]


def test_a_beginning_that_several_have_is_refused_and_they_are_named(asked: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert commands()["incidents"].main(["ack", "abcdef0"]) == 2
    written = capsys.readouterr().err
    assert FIRST in written
    assert SECOND in written
    assert asked == []


@pytest.mark.parametrize("text", ["abcde", "unknown", FIRST])
def test_what_is_no_beginning_is_asked_for_as_it_is(text: str, asked: list[str]) -> None:
    assert commands()["incidents"].main(["show", text, "-o", "json"]) == 0
    assert asked == [f"/v1/incidents/{text}"]
