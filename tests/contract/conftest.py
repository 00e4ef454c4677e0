"""The adapters under contract."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TypeAlias

import pytest

from firstfault_server.adapters import memory, sqlite
from firstfault_server.adapters.elasticsearch import ElasticsearchStores
from tests.contract.indices import elasticsearch_stores
from tests.contract.records import FixedClock

EmbeddedStores: TypeAlias = sqlite.SqliteStores | memory.MemoryStores
Stores: TypeAlias = EmbeddedStores | ElasticsearchStores
# Fetching and starting the server may be part of the first test.
ELASTICSEARCH = pytest.param("elasticsearch", marks=[pytest.mark.integration, pytest.mark.timeout(900)])


@pytest.fixture
def clock() -> FixedClock:
    """A clock that tests move by hand."""
    return FixedClock()


@pytest.fixture(params=["sqlite", "memory"])
def embedded_stores(request: pytest.FixtureRequest, tmp_path: Path, clock: FixedClock) -> Iterator[EmbeddedStores]:
    """Every store of the embedded service but the aggregates, one adapter after the other."""
    opened = embedded(request.param, tmp_path, clock)
    yield opened
    opened.close()


@pytest.fixture(params=["sqlite", "memory", ELASTICSEARCH])
def stores(request: pytest.FixtureRequest, tmp_path: Path, clock: FixedClock) -> Iterator[Stores]:
    """Every store but the aggregates and the checkpoint, one adapter after the other."""
    with ExitStack() as closing:
        opened: Stores
        if request.param == "elasticsearch":
            opened = closing.enter_context(elasticsearch_stores(request.getfixturevalue("elasticsearch_address"), clock))
        else:
            opened = embedded(request.param, tmp_path, clock)
            closing.callback(opened.close)
        yield opened


def embedded(kind: str, folder: Path, clock: FixedClock) -> EmbeddedStores:
    """New stores, without a server."""
    return sqlite.open_stores(folder / "firstfault.sqlite", clock) if kind == "sqlite" else memory.open_stores(clock)
