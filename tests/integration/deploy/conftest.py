"""A service behind the Collector, and a tenant of it for each test."""

import contextlib
import io
import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from deploy.collector.build import build
from firstfault_server.cli import keys
from tests.integration.deploy.collector import this_environment
from tests.integration.deploy.receiver import Receiver
from tests.integration.service.running import RunningService


@dataclass(frozen=True)
class Behind:
    """The service behind a Collector, the key that the Collector has, and the node it is on."""

    service: RunningService
    key: str
    node: str


@pytest.fixture(scope="session")
def collector_binary() -> Path:
    """The Collector, built once a machine."""
    return build()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """In place of ingest."""
    made = Receiver()
    yield made
    made.close()


def make_key(data: Path, tenant: str, *scopes: str) -> str:
    """A new API key, made in the service's own folder: an API key makes others of its own tenant only."""
    arguments = ["create", "--data", str(data), "--tenant", tenant, "-o", "json"]
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        # In this process: a new one takes seconds to import the command.
        status = keys.main(arguments + [part for scope in scopes for part in ("--scope", scope)])
    assert status == 0, said.getvalue()
    key: str = json.loads(said.getvalue())["key"]
    return key


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, collector_binary: Path) -> Iterator[tuple[RunningService, Path]]:
    """A service and the folder of its data."""
    folder = tmp_path_factory.mktemp("service")
    with RunningService(folder, this_environment()) as running:
        yield running, folder


@pytest.fixture
def behind(service: tuple[RunningService, Path]) -> Behind:
    """A tenant without anything yet: the Collector has a key of a node agent; the test itself uses a key that may read."""
    running, data = service
    tenant = f"t{uuid.uuid4().hex[:12]}"
    agent, reader = make_key(data, tenant, "ingest", "node"), make_key(data, tenant, "read")
    running.client.headers["authorization"] = f"Bearer {reader}"
    return Behind(running, agent, f"node-{tenant}")
