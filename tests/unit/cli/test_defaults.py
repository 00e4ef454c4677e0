"""Addresses that nobody has set: what is said of them, so that a wrong one is noticed."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from firstfault_server.cli import commands
from firstfault_server.cli.client import Client

DEFAULT = "this is only the default"
API = {"/healthz": {}, "/readyz": {}, "/v1/events": {"items": [{"id": "e1"}]}}


@pytest.fixture(autouse=True)
def nobody(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing is set anywhere."""
    for name in ("FIRSTFAULT_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT", "FIRSTFAULT_API_URL", "FIRSTFAULT_KAFKA_BOOTSTRAP"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


def _ingest(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], taken: bool, *words: str) -> tuple[str, str]:
    """What the doctor says of the hop to ingest, and where it sent."""
    sent: list[str] = []

    def post(url: str, **_: Any) -> httpx.Response:
        sent.append(url)
        if not taken:
            raise httpx.ConnectError("refused")
        return httpx.Response(200, json={})

    monkeypatch.setattr(httpx, "post", post)
    monkeypatch.setattr(Client, "request", lambda _client, _method, path, **_: API[path])
    assert commands()["doctor"].main([*words, "-o", "json"]) == (0 if taken else 1)
    hops = {hop["hop"]: hop["detail"] for hop in json.loads(capsys.readouterr().out)["items"]}
    return hops["ingest"], sent[0]


@pytest.mark.parametrize("taken", [True, False])
def test_the_doctor_says_that_nobody_set_its_endpoint(
    taken: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FIRSTFAULT_ENDPOINT", "")
    detail, sent = _ingest(monkeypatch, capsys, taken)
    assert sent == "http://127.0.0.1:4318/v1/logs"
    assert DEFAULT in detail
    assert "FIRSTFAULT_ENDPOINT" in detail
    assert "--endpoint" in detail


@pytest.mark.parametrize("taken", [True, False])
@pytest.mark.parametrize("variable", ["FIRSTFAULT_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT", ""])
def test_an_endpoint_that_somebody_set_is_none_of_the_default(
    variable: str, taken: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if variable:
        monkeypatch.setenv(variable, "http://127.0.0.1:4318/")
    detail, sent = _ingest(monkeypatch, capsys, taken, *([] if variable else ["--endpoint", "http://127.0.0.1:4318"]))
    assert sent == "http://127.0.0.1:4318/v1/logs"
    assert DEFAULT not in detail


def _unreachable(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    def refuse(*_: Any, **__: Any) -> httpx.Response:
        raise httpx.ConnectError("refused")

    monkeypatch.setattr(httpx.Client, "request", refuse)
    assert commands()["incidents"].main(["list", *words]) == 4
    return capsys.readouterr().err


def test_an_api_that_is_not_at_its_default_address_is_said_to_be_the_default(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = _unreachable(monkeypatch, capsys)
    assert DEFAULT in said
    assert "FIRSTFAULT_API_URL" in said
    assert DEFAULT not in _unreachable(monkeypatch, capsys, "--api-url", "http://127.0.0.1:8080")
    monkeypatch.setenv("FIRSTFAULT_API_URL", "http://127.0.0.1:8080")
    assert DEFAULT not in _unreachable(monkeypatch, capsys)
