"""Watching: each incident when it is new or has changed, oldest first, and not again."""

from typing import Any

import pytest

from firstfault_server.cli import around
from firstfault_server.cli.client import Client


class Scripted(Client):
    """Gives one list of incidents after the other, newest first."""

    def __init__(self, *lists: list[dict[str, Any]]) -> None:
        super().__init__("http://localhost", "")
        self._lists = list(lists)

    def pages(self, path: str, limit: int, **parameters: Any) -> Any:
        return iter(self._lists.pop(0))


def _incident(name: str, revision: int, version: int = 0) -> dict[str, Any]:
    return {"id": name, "revision": revision, "triage": {"version": version}}


def test_changes_are_given_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(around, "WATCH_EVERY_S", 0.0)
    client = Scripted(
        [_incident("b", 1), _incident("a", 1)],
        [_incident("b", 1), _incident("a", 1)],
        [_incident("c", 1), _incident("b", 2), _incident("a", 1, version=1)],
    )
    stream = around.changes(client, "", "24h")
    found = [next(stream) for _ in range(5)]
    assert [(item["id"], item["revision"], item["triage"]["version"]) for item in found] == [
        ("a", 1, 0),
        ("b", 1, 0),
        ("a", 1, 1),
        ("b", 2, 0),
        ("c", 1, 0),
    ]
