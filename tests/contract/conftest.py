"""The adapters under contract."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TypeAlias

import msgspec
import pytest

from firstfault_server.adapters import memory, sqlite
from firstfault_server.adapters.elasticsearch import ElasticsearchContextStore
from firstfault_server.adapters.memory.context import MemoryContextStore
from firstfault_server.adapters.sqlite.events import SqliteContextStore
from firstfault_server.ports import IncidentStore
from tests.contract.indices import elasticsearch_context
from tests.contract.records import FixedClock

Stores: TypeAlias = sqlite.SqliteStores | memory.MemoryStores


class ContextStores(msgspec.Struct):
    """A context store, and the incident store that tells it of runs."""

    context: SqliteContextStore | MemoryContextStore | ElasticsearchContextStore
    incidents: IncidentStore


@pytest.fixture
def clock() -> FixedClock:
    """A clock that tests move by hand."""
    return FixedClock()


@pytest.fixture(params=["sqlite", "memory"])
def stores(request: pytest.FixtureRequest, tmp_path: Path, clock: FixedClock) -> Iterator[Stores]:
    """Every store but the aggregates, one adapter after the other."""
    opened: Stores = sqlite.open_stores(tmp_path / "firstfault.sqlite", clock) if request.param == "sqlite" else memory.open_stores(clock)
    yield opened
    opened.close()


@pytest.fixture(params=["sqlite", "memory", "elasticsearch"])
def context_stores(request: pytest.FixtureRequest, tmp_path: Path, clock: FixedClock) -> Iterator[ContextStores]:
    """Context stores, one adapter after the other."""
    with ExitStack() as closing:
        opened: Stores = (
            sqlite.open_stores(tmp_path / "firstfault.sqlite", clock) if request.param == "sqlite" else memory.open_stores(clock)
        )
        closing.callback(opened.close)
        context: SqliteContextStore | MemoryContextStore | ElasticsearchContextStore = opened.context
        if request.param == "elasticsearch":
            context = closing.enter_context(elasticsearch_context(request.getfixturevalue("elasticsearch_address"), opened.incidents))
        yield ContextStores(context=context, incidents=opened.incidents)
