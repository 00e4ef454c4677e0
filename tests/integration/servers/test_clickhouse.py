"""What stands in for a ClickHouse server can be no part of a cluster (docs/adr/0012-clickhouse-without-its-server.md); nor need it."""

import uuid
from collections.abc import Iterator

import pytest
from clickhouse_connect.driver.exceptions import ClickHouseError

from firstfault_server.adapters.clickhouse import Engine, server_engine, tables
from firstfault_server.ports import StoreUnavailable

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]


@pytest.fixture
def engine(clickhouse_url: str) -> Iterator[Engine]:
    made = server_engine(clickhouse_url, clients=1)
    yield made
    made.close()


@pytest.fixture
def database(engine: Engine) -> Iterator[str]:
    name = f"t{uuid.uuid4().hex[:12]}"
    engine.command(f"CREATE DATABASE {name}")
    yield name
    engine.command(f"DROP DATABASE {name}")


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE {database}.a (x UInt8) ENGINE = ReplicatedMergeTree('/a', 'one') ORDER BY x",
        "CREATE TABLE {database}.a ON CLUSTER c (x UInt8) ENGINE = MergeTree ORDER BY x",
    ],
)
def test_it_cannot_replicate(engine: Engine, database: str, statement: str) -> None:
    """The day it can, such tables can be tried, and the documentation has to say something else."""
    with pytest.raises((ClickHouseError, StoreUnavailable)):
        engine.command(statement.format(database=database))
    engine.command(f"CREATE TABLE {database}.a (x UInt8) ENGINE = MergeTree ORDER BY x")


def test_tables_of_the_service_are_plain(engine: Engine, database: str) -> None:
    tables.migrate(engine, database)
    engines = {row[0] for row in engine.rows(f"SELECT DISTINCT engine FROM system.tables WHERE database = '{database}'")}
    assert "ReplacingMergeTree" in engines
    assert not {name for name in engines if name.startswith(("Replicated", "Distributed", "Shared"))}
