"""A running service for the tests of the command line, and commands run against it."""

import json
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from firstfault_server.cli import commands
from firstfault_server.cli.child import ChildService

LOOPBACK = ("127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0")
Run = Callable[..., tuple[int, Any]]


def clean_environment() -> dict[str, str]:
    """This process's environment without anybody's own settings."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("FIRSTFAULT_", "OTEL_"))} | {"HOME": "/nonexistent"}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChildService]:
    """One service for all tests of a module."""
    with ChildService(tmp_path_factory.mktemp("service"), LOOPBACK, clean_environment()) as child:
        yield child


@pytest.fixture
def command(service: ChildService, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command against the service: exit status, and what stdout holds as JSON (None: nothing)."""
    monkeypatch.setenv("HOME", "/nonexistent")
    monkeypatch.setenv("FIRSTFAULT_API_URL", service.api_url)

    def run(*argv: str) -> tuple[int, Any]:
        capsys.readouterr()
        status = commands()[argv[0]].main(list(argv[1:]))
        written = capsys.readouterr().out
        return status, json.loads(written) if written else None

    return run
