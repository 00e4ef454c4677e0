"""One service and one key for the tests of the Collector."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from deploy.collector.build import build
from tests.integration.deploy.collector import this_environment
from tests.integration.service.running import RunningService


@dataclass(frozen=True)
class Behind:
    """The service behind a Collector, and the key that the Collector has."""

    service: RunningService
    key: str


@pytest.fixture(scope="session")
def collector_binary() -> Path:
    """The Collector, built once a machine."""
    return build()


@pytest.fixture
def behind(tmp_path: Path, collector_binary: Path) -> Iterator[Behind]:
    """A service with a key for a node agent; the test itself uses a key that may read."""
    with RunningService(tmp_path / "service", this_environment()) as service:

        def make(*scopes: str) -> str:
            reply = service.client.post("/v1/keys", json={"name": "-".join(scopes), "scopes": list(scopes)})
            assert reply.status_code == 201, reply.text
            key: str = reply.json()["key"]
            return key

        reader = make("admin", "read", "write")
        service.client.headers["authorization"] = f"Bearer {reader}"
        yield Behind(service, make("ingest", "node"))
