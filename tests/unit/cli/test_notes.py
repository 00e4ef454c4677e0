"""Notes as people type them: with quotes and without."""

from pathlib import Path
from typing import Any

import pytest

from firstfault_server.cli import commands
from firstfault_server.cli.client import Client


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Any]:
    """Bodies of the requests that follow."""
    bodies: list[Any] = []

    def request(_client: Client, _method: str, path: str, body: Any = None, **_: Any) -> Any:
        assert path == "/v1/incidents/abc/notes"
        bodies.append(body)
        return {}

    monkeypatch.setattr(Client, "request", request)
    monkeypatch.setenv("HOME", str(tmp_path))
    return bodies


@pytest.mark.parametrize(
    ("words", "text", "by"),
    [
        (["cable of rank 3 was loose"], "cable of rank 3 was loose", None),
        (["cable", "of", "rank", "3", "was", "loose"], "cable of rank 3 was loose", None),
        (["--by", "ada", "cable", "loose"], "cable loose", "ada"),
        (["cable", "loose", "--by", "ada"], "cable loose", "ada"),
        (["cable", "--by", "ada", "loose"], "cable loose", "ada"),
        (["two  blanks", "and\na line"], "two  blanks and\na line", None),
        (["--", "-9", "was", "the", "status"], "-9 was the status", None),
        (["exit", "status", "--", "-9"], "exit status -9", None),
    ],
)
def test_all_words_are_the_note(words: list[str], text: str, by: str | None, sent: list[Any]) -> None:
    assert commands()["incidents"].main(["note", "abc", "-o", "json", *words]) == 0
    assert sent == [{"text": text} | ({"by": by} if by else {})]


def test_a_note_of_no_words_is_refused(sent: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert commands()["incidents"].main(["note", "abc"]) == 2
    assert "TEXT" in capsys.readouterr().err
    assert sent == []


def test_the_help_shows_it_without_quotes(capsys: pytest.CaptureFixture[str]) -> None:
    assert commands()["incidents"].main(["note", "--help"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "note 3f2a91 cable of rank 3 was loose" in shown
    assert "TEXT}..." in shown
