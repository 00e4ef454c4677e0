"""Options that take a period or a time: what is none is named by its option, with an example of one."""

from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi.testclient import TestClient

from firstfault_server.cli import commands
from tests.unit.api.stand import Stand


class Http(httpx.Client):
    """The commands' own client, apart from the one of the tests."""


INCIDENT = "incident-acme"
SILENCE = ["silences", "create", "is:open", "--comment", "c"]
PERIODS = [
    (["incidents", "list"], "--since"),
    (["incidents", "watch"], "--since"),
    (["runs", "list"], "--since"),
    (["events", "search"], "--since"),
    (["incidents", "mute", INCIDENT], "--for"),
    (SILENCE, "--for"),
]
TIMES = [(["incidents", "mute", INCIDENT], "--until"), (SILENCE, "--until"), ([*SILENCE, "--for", "2h"], "--start")]


@pytest.fixture(scope="module")
def api() -> TestClient:
    """An API that refuses everything that is asked here."""
    made = Stand()
    made.fill("acme", "acme")
    return made.client("ffk_acme-admin")


@pytest.fixture(autouse=True)
def service(api: TestClient, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Commands meet the API in this process."""

    def request(_client: httpx.Client, method: str, path: str, *, params: Any, json: Any, timeout: httpx.Timeout) -> httpx.Response:
        response: httpx.Response = api.request(method, path, params=params, json=json)
        return response

    monkeypatch.setattr(Http, "request", request)
    monkeypatch.setattr("firstfault_server.cli.client.httpx.Client", Http)
    monkeypatch.setenv("HOME", str(tmp_path))


def _refused(words: list[str], option: str, value: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert commands()[words[0]].main([*words[1:], f"{option}={value}", "-o", "json"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert len(captured.err.splitlines()) == 1
    return captured.err


@pytest.mark.parametrize("value", ["", "5", "h", "2 h", "two hours", "-1h", "1.5h", "2H", "1y", "90 minutes", "1234567s", "١h", "x" * 60])
@pytest.mark.parametrize(("words", "option"), PERIODS, ids=lambda part: part if isinstance(part, str) else " ".join(part[:2]))
def test_what_is_no_period(words: list[str], option: str, value: str, capsys: pytest.CaptureFixture[str]) -> None:
    said = _refused(words, option, value, capsys)
    assert said.startswith(f"firstfault: {option}: {value!r} is not a number with s, m, h, d or w, for instance 30m, 24h or 7d")


@pytest.mark.parametrize("value", ["", "tomorrow", "18:00", "2026-11-30T18:00:00", "2026-13-01T00:00:00Z"])
@pytest.mark.parametrize(("words", "option"), TIMES, ids=lambda part: part if isinstance(part, str) else " ".join(part[:2]))
def test_what_is_no_time(words: list[str], option: str, value: str, capsys: pytest.CaptureFixture[str]) -> None:
    said = _refused(words, option, value, capsys)
    assert said.startswith(f"firstfault: {option}: {value!r} ")
    assert "for instance 2026-11-30T18:00:00Z" in said


@pytest.mark.parametrize("value", ["x" * 65, "9" * 1000 + "h"])
@pytest.mark.parametrize(("words", "option"), PERIODS, ids=lambda part: part if isinstance(part, str) else " ".join(part[:2]))
def test_what_is_far_too_long_is_named_and_not_repeated(
    words: list[str], option: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    said = _refused(words, option, value, capsys)
    assert f"{option}: " in said
    assert value not in said


@pytest.mark.parametrize("words", [["incidents", "mute", INCIDENT], SILENCE], ids=["mute", "silence"])
@pytest.mark.parametrize(("option", "value"), [("--for", "0h"), ("--until", "2020-01-01T00:00:00Z")])
def test_an_end_that_has_passed_is_named_by_its_option(
    words: list[str], option: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _refused(words, option, value, capsys).startswith(f"firstfault: {option}: the ")


@pytest.mark.parametrize("words", [["incidents", "mute", INCIDENT], SILENCE], ids=["mute", "silence"])
def test_two_ends_are_one_too_many(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert "one of --for and --until" in _refused([*words, "--for", "2h"], "--until", "2099-01-01T00:00:00Z", capsys)
