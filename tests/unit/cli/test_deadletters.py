"""`firstfault deadletters` over the real API: nothing that somebody sent is obeyed by a terminal, and its bytes can be had as they came."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi.testclient import TestClient

from firstfault_server.cli import commands
from firstfault_server.core import model
from tests.contract.records import NOW_NS
from tests.unit.api.stand import Stand

DATA = b'{"broken": "\xff\x00\x1b[2J\xe2\x80\xae"}\nsecond line\n' + b"x" * 3000
Run = Callable[..., tuple[int, str, str]]


class Wire:
    """In place of a connection."""

    def __init__(self, api: TestClient) -> None:
        self._api = api

    def request(self, method: str, path: str, *, params: Any, json: Any, timeout: Any) -> httpx.Response:
        """Asks the application itself."""
        answer: httpx.Response = self._api.request(method, path, params=params, json=json)
        return answer


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Run]:
    """Runs the command against an API with one dead letter of each of two tenants: exit status, stdout, stderr."""
    stand = Stand()
    letter = model.DeadLetter(id="letter-1", tenant="acme", received_ns=NOW_NS, reason="no \x1b[31mJSON", signal="logs", data=DATA)
    stand.stores.context.write_dead_letters([letter, model.DeadLetter(id="letter-2", tenant="other", received_ns=NOW_NS, reason="secret")])
    monkeypatch.setenv("HOME", "/nonexistent")
    monkeypatch.setenv("FIRSTFAULT_API_URL", "http://localhost")
    monkeypatch.setenv("FIRSTFAULT_API_KEY", "ffk_acme-reader")
    with stand.client("ffk_acme-reader") as api:
        monkeypatch.setattr("httpx.Client", lambda **_: Wire(api))

        def run(*argv: str) -> tuple[int, str, str]:
            status = commands()["deadletters"].main([*argv])
            written = capsys.readouterr()
            return status, written.out, written.err

        yield run


def test_a_list_has_a_line_for_each(run: Run) -> None:
    status, out, _ = run("list", "-o", "table")
    assert status == 0
    assert out.splitlines()[1].split() == ["letter-1", "2026-09-21T14:13:20.000", "logs", str(len(DATA)), "no", r"\x1b[31mJSON"]
    assert "secret" not in out
    assert [item["id"] for item in json.loads(run("list", "-o", "json")[1])["items"]] == ["letter-1"]


def test_bytes_are_shown_as_text_that_does_nothing(run: Run) -> None:
    status, out, _ = run("show", "letter-1", "-o", "table")
    assert status == 0
    assert r'{"broken": "\xff\x00\x1b[2J\u202e"}' in out.splitlines()
    assert "second line" in out.splitlines()
    assert not any(character in out for character in "\x00\x1b\u202e")
    assert "--save FILE" in out


def test_bytes_are_saved_as_they_came(run: Run, tmp_path: Path) -> None:
    assert run("show", "letter-1", "--save", str(tmp_path / "letter"))[0] == 0
    assert (tmp_path / "letter").read_bytes() == DATA
    status, _, err = run("show", "letter-1", "--save", str(tmp_path / "none" / "letter"))
    assert status == 2
    assert "No such file or directory" in err


def test_letters_of_others_do_not_exist(run: Run) -> None:
    status, out, err = run("show", "letter-2")
    assert (status, out) == (2, "")
    assert "no such thing here [404]" in err
