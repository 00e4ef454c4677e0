"""What every test starts from: no settings of the person who runs it, generated cases that are the same each time, real servers."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from deploy.native.servers.shared import shared

KEPT = {"FIRSTFAULT_CACHE", "FIRSTFAULT_SOAK", "FIRSTFAULT_STACK_FOLDER"}
"""Settings of the tests themselves."""

# No deadline: the machine may be busy. `make soak` looks further, and elsewhere each time.
settings.register_profile("tests", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("soak", settings.get_profile("tests"), derandomize=False, max_examples=2000)
settings.load_profile("soak" if "FIRSTFAULT_SOAK" in os.environ else "tests")


def pytest_configure(config: pytest.Config) -> None:
    """Before anything is imported that reads the environment."""
    for name in list(os.environ):
        if name.startswith(("FIRSTFAULT_", "OTEL_")) and name not in KEPT:
            del os.environ[name]
    # A shell starts what it runs in the background with SIGINT ignored, and so would be everything that tests start and interrupt.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # Where no service answers, a sidecar would outlive its test by minutes.
    os.environ["FIRSTFAULT_SIDECAR_LINGER_S"] = "0"


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all workers of this run see."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@pytest.fixture(scope="session")
def kafka_address(shared_folder: Path) -> Iterator[str]:
    """A Kafka node that all workers of this run share; it ends with the last of them. Tests use topics of their own."""
    with shared("kafka", shared_folder / "kafka") as address:
        yield address


@pytest.fixture(scope="session")
def elasticsearch_address(shared_folder: Path) -> Iterator[str]:
    """An Elasticsearch node that all workers of this run share; it ends with the last of them. Tests use indices of their own."""
    with shared("elasticsearch", shared_folder / "elasticsearch") as address:
        yield address


@pytest.fixture(scope="session")
def clickhouse_url(shared_folder: Path) -> Iterator[str]:
    """A ClickHouse server that all workers of this run share; it ends with the last of them. Tests use databases of their own."""
    with shared("clickhouse", shared_folder / "clickhouse") as url:
        yield url
