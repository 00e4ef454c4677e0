"""The client of the commands: pages, and what each failure is as an exit status."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
import typer

from firstfault_server.cli import commands
from firstfault_server.cli.client import TRY_TIMEOUT_S, Client
from firstfault_server.settings import Settings


class Api:
    """Answers by script."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, bytes]] = []
        self.paths: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.url = ""


@pytest.fixture
def api() -> Iterator[Api]:
    made = Api()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            made.paths.append(self.path)
            made.headers.append({name.lower(): value for name, value in self.headers.items()})
            status, body = made.answers.pop(0)
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield made
    server.shutdown()
    thread.join()
    server.server_close()


def _page(items: list[int], cursor: str | None) -> tuple[int, bytes]:
    return 200, json.dumps({"items": items, "next_cursor": cursor}).encode()


def test_pages_are_followed_to_the_limit(api: Api) -> None:
    api.answers = [_page([1, 2], "c1"), _page([3, 4], "c2"), _page([5], None)]
    assert list(Client(api.url, "").pages("/v1/x", 100, q="a")) == [1, 2, 3, 4, 5]
    assert "cursor=c2" in api.paths[2]
    api.answers = [_page([1, 2], "c1"), _page([3], "c2")]
    assert list(Client(api.url, "").pages("/v1/x", 3)) == [1, 2, 3]
    assert "limit=1" in api.paths[4]


def test_a_key_is_sent_and_a_proxy_of_the_environment_is_not_used_for_this_machine(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    api.answers = [_page([], None)]
    Client(api.url, "ffk_x").get("/v1/x")
    assert api.headers[0]["authorization"] == "Bearer ffk_x"


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (401, b'{"detail": "no key"}', 3),
        (403, b'{"detail": "no scope"}', 3),
        (404, b'{"detail": "nothing"}', 2),
        (400, b'{"detail": "bad", "errors": [{"in": "q", "reason": "x"}], "position": 3}', 2),
        (400, b"<html>", 2),
        (400, b"[]", 2),
        (500, b"", 4),
        (503, b'{"detail": "down"}', 4),
    ],
)
def test_failures_are_exit_statuses(api: Api, status: int, body: bytes, expected: int, capsys: pytest.CaptureFixture[str]) -> None:
    api.answers = [(status, body)]
    with pytest.raises(typer.Exit) as failure:
        Client(api.url, "").get("/v1/x")
    assert failure.value.exit_code == expected
    captured = capsys.readouterr()
    assert captured.out == ""
    assert str(status) in captured.err


def test_nobody_there_is_unreachable() -> None:
    with pytest.raises(typer.Exit) as failure:
        Client("http://127.0.0.1:9", "").get("/v1/x")
    assert failure.value.exit_code == 4


@pytest.mark.parametrize("url", ["", "127.0.0.1:8080", "ftp://x", "http://"])
def test_an_address_that_is_no_url_is_a_mistake(url: str) -> None:
    with pytest.raises(typer.Exit) as failure:
        Client(url, "")
    assert failure.value.exit_code == 2


@pytest.mark.parametrize("key", ["ffk_é", "ffk_x\n", "ffk_x\r\ny", "ffk_ x", "ffk_\x7f", "ffk_\udcff", "ffk_\x00", "ffk_“x”"])
def test_a_key_with_characters_that_no_key_has_is_a_mistake_and_stays_secret(key: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as failure:
        Client("http://127.0.0.1:9", key)
    assert failure.value.exit_code == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert len(captured.err.splitlines()) == 1
    assert "characters that no key has" in captured.err
    assert "ffk_" not in captured.err


@pytest.mark.parametrize("name", sorted(set(commands()) - {"explain", "group"}))
def test_every_command_explains_itself_and_refuses_what_it_does_not_know(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert commands()[name].main(["--help"]) == 0
    assert name in capsys.readouterr().out
    assert commands()[name].main(["--no-such-option"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err


def test_a_test_message_outwaits_the_longest_time_a_receiver_may_take() -> None:
    longest = next(part.le for part in Settings.model_fields["alert_timeout_s"].metadata if hasattr(part, "le"))
    assert longest < TRY_TIMEOUT_S
