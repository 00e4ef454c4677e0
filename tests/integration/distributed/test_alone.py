"""Services whose servers are all away: they start, say what is missing, and end when they are asked to."""

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from deploy.native.servers.process import free_ports
from tests.integration.cli.sending import send_crash
from tests.integration.distributed.installation import wait_for
from tests.integration.distributed.services import FREE, Service, clean_environment

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]
MISSING = {
    "ingest": {"kafka"},
    "writer": {"context", "aggregates"},
    "alerter": {"incidents", "delivery"},
    "api": {"elasticsearch", "metrics", "stream"},
}


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Service]]:
    """All of them, started at once; each test ends one."""
    kafka, elasticsearch, clickhouse = free_ports(3)
    environ = clean_environment() | {
        "FIRSTFAULT_KAFKA_BOOTSTRAP": f"127.0.0.1:{kafka}",
        "FIRSTFAULT_ELASTICSEARCH_URL": f"http://127.0.0.1:{elasticsearch}",
        "FIRSTFAULT_CLICKHOUSE_URL": f"http://127.0.0.1:{clickhouse}",
        **{f"FIRSTFAULT_{name}": FREE for name in ("API", "OTLP_HTTP", "OTLP_GRPC", "INGEST_HEALTH", "WRITER_HEALTH", "ALERTER_HEALTH")},
    }
    folder = tmp_path_factory.mktemp("alone")
    with ThreadPoolExecutor() as at_once:
        started = {service.kind: service for service in at_once.map(lambda kind: Service(kind, environ, folder), MISSING)}
    yield started
    for service in started.values():
        if service.running:
            service.kill()


@pytest.mark.parametrize("kind", MISSING)
def test_it_says_what_is_missing_and_ends(alone: dict[str, Service], kind: str) -> None:
    service = alone[kind]
    assert httpx.get(f"{service.health}/healthz", timeout=30, trust_env=False).status_code == 200
    wait_for(lambda: set(service.problems()) == MISSING[kind], f"serve {kind} says what is missing")
    if kind == "ingest":
        with pytest.raises(OSError, match="503"):
            send_crash(service.url("otlp-http"), "r-1", key="ffk_unknown")
    if kind == "api":
        answer = httpx.get(service.url("api") + "/v1/incidents", timeout=30, trust_env=False)
        assert answer.status_code == 503
        assert answer.headers["retry-after"]
    assert service.stop() == 0


def test_settings_that_are_missing_are_named() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "firstfault_server", "serve", "writer"], capture_output=True, text=True, env=clean_environment(), check=False
    )
    assert done.returncode == 2
    assert "FIRSTFAULT_KAFKA_BOOTSTRAP, FIRSTFAULT_ELASTICSEARCH_URL, FIRSTFAULT_CLICKHOUSE_URL: not set" in done.stderr
