"""The adapters under contract."""

from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

import pytest

from firstfault_server.adapters import memory, sqlite
from tests.contract.records import FixedClock

Stores: TypeAlias = sqlite.SqliteStores | memory.MemoryStores


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
