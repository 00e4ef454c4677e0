"""Tables in ClickHouse and the steps that bring older ones up to date."""

from typing import Final, NamedTuple

from firstfault_server.adapters.clickhouse.engine import Engine
from firstfault_server.ports import StoreUnavailable

SLOTS: Final = 64
"""Partitions at most. A window lies in the partition of its day modulo this, so that absurd times cannot make thousands; with a
retention of less than this many days a partition holds one day and pruning drops it whole."""
NO_RANK: Final = -(1 << 63)
"""Rank of processes without one; sorting keys should not be nullable."""

ROLLUP_COLUMNS: Final = {
    "tenant": "LowCardinality(String)",
    "run": "LowCardinality(String)",
    "metric": "LowCardinality(String)",
    "rank": "Int64",
    "process": "LowCardinality(String)",
    "attributes": "LowCardinality(String)",
    "window_ns": "Int64",
    "position": "String",
    "node": "LowCardinality(String)",
    "count": "UInt64",
    "total": "Float64",
    "squares": "Float64",
    "lowest": "Nullable(Float64)",
    "highest": "Nullable(Float64)",
    "first": "Nullable(Float64)",
    "first_ns": "Int64",
    "last": "Nullable(Float64)",
    "last_ns": "Int64",
    "nonfinite": "UInt64",
    "step_min": "Nullable(Int64)",
    "step_max": "Nullable(Int64)",
}
_CODECS: Final = {
    "window_ns": "Delta, ZSTD(1)",
    "first_ns": "Delta, ZSTD(1)",
    "last_ns": "Delta, ZSTD(1)",
    "position": "ZSTD(1)",
    **{
        name: "ZSTD(1)" for name in ("count", "total", "squares", "lowest", "highest", "first", "last", "nonfinite", "step_min", "step_max")
    },
}
_DAY_NS: Final = 86_400 * 1_000_000_000


def _create_rollup() -> str:
    columns = ", ".join(
        f"`{name}` {kind}" + (f" CODEC({_CODECS[name]})" if name in _CODECS else "") for name, kind in ROLLUP_COLUMNS.items()
    )
    # The whole key of a delta is the sorting key, so that a delta written again replaces itself. No materialized view: a kill
    # between base table and view leaves the view short for good.
    return f"""CREATE TABLE IF NOT EXISTS {{database}}.rollup ({columns})
        ENGINE = ReplacingMergeTree
        PARTITION BY intDiv(window_ns, {_DAY_NS}) % {SLOTS}
        PRIMARY KEY (tenant, run, metric, rank, process, attributes, window_ns)
        ORDER BY (tenant, run, metric, rank, process, attributes, window_ns, position)
        SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, min_age_to_force_merge_seconds = 600, parts_to_delay_insert = 1000"""


class Migration(NamedTuple):
    """The step to one version of the tables from the one before."""

    statements: tuple[str, ...]
    """With `{database}` where its name goes. Each can be run twice."""
    works_from: int
    """Lowest version that code may know and still read and write these tables. A step that only adds what has a default keeps the
    number of the step before, so that services can be rolled back after it."""


MIGRATIONS: Final = (Migration((_create_rollup(),), works_from=1),)
"""From no tables on; what has shipped is never changed."""


def migrate(engine: Engine, database: str) -> list[int]:
    """Create or upgrade the tables; the versions gone through, [] when all was well.

    Raises StoreUnavailable for tables of a later version that this one cannot use; those that it can stay as they are.
    """
    engine.command(f"CREATE DATABASE IF NOT EXISTS {database}")
    engine.command(f"CREATE TABLE IF NOT EXISTS {database}.schema_version (version UInt32) ENGINE = ReplacingMergeTree ORDER BY version")
    engine.command(f"ALTER TABLE {database}.schema_version ADD COLUMN IF NOT EXISTS works_from UInt32 DEFAULT version")
    version = _version(engine, database)
    applied = []
    for number, step in enumerate(MIGRATIONS[version:], start=version + 1):
        for statement in step.statements:
            engine.command(statement.replace("{database}", database))
        engine.insert(f"{database}.schema_version", ["version", "works_from"], [number, step.works_from])
        applied.append(number)
    return applied


def check(engine: Engine, database: str) -> None:
    """Raises StoreUnavailable unless this version can use the tables."""
    found = engine.rows("SELECT count() FROM system.tables WHERE database = {database:String}", {"database": database})[0][0]
    version = _version(engine, database) if found else 0
    if version < len(MIGRATIONS):
        raise StoreUnavailable(f"{engine.place}: has schema {version}, not {len(MIGRATIONS)}; run `firstfault migrate`")


def _version(engine: Engine, database: str) -> int:
    version = int(engine.rows(f"SELECT max(version) FROM {database}.schema_version")[0][0])
    known = len(MIGRATIONS)
    if version > known:
        needed = int(engine.rows(f"SELECT max(works_from) FROM {database}.schema_version")[0][0])
        if needed > known:
            raise StoreUnavailable(
                f"{engine.place}: was upgraded by a newer version to schema {version}, which needs one that knows schema {needed}; "
                f"this one knows {known}. Go back to that version"
            )
    return version
