"""AggregateStore on ClickHouse."""

from collections.abc import Sequence
from typing import Any, Final

from firstfault_server.adapters.clickhouse.engine import Engine
from firstfault_server.adapters.clickhouse.tables import NO_RANK, ROLLUP_COLUMNS, SLOTS, check, migrate
from firstfault_server.core import model
from firstfault_server.core.buckets import bucket_width
from firstfault_server.core.unicode import escaped
from firstfault_server.ports import SeriesPoint, SeriesQuery

BATCH_ROWS: Final = 100_000
"""Rows of one insert at most; larger ones would be split into several parts, which a kill could separate."""
_HIGHEST: Final = (1 << 63) - 1
_DAY_NS: Final = 86_400 * model.SECOND_NS

# Deltas written twice count once: FINAL keeps one row of each key. Equal keys lie in one partition.
_FROM: Final = "FROM {database}.rollup FINAL"
_ONE_SERIES: Final = "tenant = {tenant:String} AND run = {run:String} AND metric = {metric:String}"
_SETTINGS: Final = "SETTINGS do_not_merge_across_partitions_select_final = 1"
_SUMS: Final = """sum(count), sumKahan(total) / nullIf(sum(count) - sum(nonfinite), 0), min(lowest), max(highest),
    argMax(last, last_ns), sum(nonfinite), min(step_min), max(step_max), max(last_ns)"""


class ClickHouseAggregateStore:
    """Deltas in one table that keeps one row per key; sums are made on read."""

    def __init__(self, engine: Engine, *, database: str = "firstfault", upgrade: bool = True) -> None:
        """Creates or upgrades the tables, or only checks them. `database` must be a plain name. Raises StoreUnavailable."""
        if not database.isidentifier():
            raise ValueError(f"{database!r} cannot be the name of a database")
        self._engine = engine
        self._table = f"{database}.rollup"
        self._from = _FROM.replace("{database}", database)
        self._database = database
        if upgrade:
            migrate(engine, database)
        else:
            check(engine, database)

    def write_rollups(self, rollups: Sequence[model.Rollup]) -> None:
        """Insert deltas; the same delta twice counts once. Raises StorageFull, StoreUnavailable."""
        for start in range(0, len(rollups), BATCH_ROWS):
            batch = rollups[start : start + BATCH_ROWS]
            try:
                self._engine.insert(self._table, list(ROLLUP_COLUMNS), rows_of(batch))
            except UnicodeEncodeError:
                self._engine.insert(self._table, list(ROLLUP_COLUMNS), rows_of([escaped(rollup) for rollup in batch]))

    def series(self, query: SeriesQuery) -> dict[tuple[int | None, str], list[SeriesPoint]]:
        """Buckets by (rank, process); empty buckets are left out. Raises StoreUnavailable."""
        where, parameters = _where(query)
        since, until = query.since_ns, query.until_ns
        if since is None or until is None:
            first, last, count = self._engine.rows(
                f"SELECT min(window_ns), max(window_ns), count() {self._from} WHERE {where} {_SETTINGS}", parameters
            )[0]
            if not count:
                return {}
            since, until = first if since is None else since, last + 1 if until is None else until
        parameters["width"] = bucket_width(since, until, query.points)
        rows = self._engine.rows(
            f"""SELECT rank, process, intDiv(window_ns, {{width:Int64}}) * {{width:Int64}} AS bucket, {_SUMS} {self._from} WHERE {where}
                GROUP BY rank, process, bucket ORDER BY rank, process, bucket {_SETTINGS}""",
            parameters,
        )
        answer: dict[tuple[int | None, str], list[SeriesPoint]] = {}
        for rank, process, bucket, *sums in rows:
            answer.setdefault((_rank(rank), process), []).append(_point(bucket, sums))
        return answer

    def metrics(self, tenant: str, run: str) -> list[str]:
        """Names of the metrics a run has sent, sorted. Raises StoreUnavailable."""
        rows = self._engine.rows(
            f"SELECT DISTINCT metric FROM {self._table} WHERE tenant = {{tenant:String}} AND run = {{run:String}} ORDER BY metric",
            {"tenant": tenant, "run": run},
        )
        return [metric for (metric,) in rows]

    def ranks(self, tenant: str, run: str, metric: str) -> list[dict[str, Any]]:
        """Per rank, those without one last: rank, process, count, mean, last, nonfinite, last_ns. Raises StoreUnavailable."""
        rows = self._engine.rows(
            f"""SELECT rank, process, {_SUMS} {self._from} WHERE {_ONE_SERIES}
                GROUP BY rank, process ORDER BY rank = {NO_RANK}, rank, process {_SETTINGS}""",
            {"tenant": tenant, "run": run, "metric": metric},
        )
        return [
            {
                "rank": _rank(rank),
                "process": process,
                "count": sums[0],
                "mean": sums[1],
                "last": sums[4],
                "nonfinite": sums[5],
                "last_ns": sums[8],
            }
            for rank, process, *sums in rows
        ]

    def prune(self, before_ns: int) -> None:
        """Drop the days that are older as a whole. Raises StoreUnavailable."""
        before_day = before_ns // _DAY_NS
        rows = self._engine.rows(
            f"""SELECT intDiv(window_ns, {_DAY_NS}) % {SLOTS} AS slot, min(window_ns), max(window_ns) FROM {self._table} GROUP BY slot"""
        )
        for slot, first, last in rows:
            if last // _DAY_NS < before_day:
                self._engine.command(f"ALTER TABLE {self._table} DROP PARTITION {int(slot)}")
            elif first // _DAY_NS < before_day:
                # Two days share the partition: a very old one, by absurd times or a long retention, and one that stays.
                self._engine.command(
                    f"DELETE FROM {self._table} IN PARTITION {int(slot)} WHERE window_ns < {before_day * _DAY_NS}",
                )

    def size_bytes(self) -> int:
        """Bytes on disk."""
        return sum(size for _, size in self._sizes())

    def extents(self) -> list[tuple[int, int]]:
        """(end of its newest day, bytes) of each partition, oldest first: what `prune` to that time would free."""
        sizes = dict(self._sizes())
        rows = self._engine.rows(f"SELECT intDiv(window_ns, {_DAY_NS}) % {SLOTS} AS slot, max(window_ns) FROM {self._table} GROUP BY slot")
        return sorted(((last // _DAY_NS + 1) * _DAY_NS, sizes.get(str(slot), 0)) for slot, last in rows)

    def close(self) -> None:
        """Release the engine."""
        self._engine.close()

    def _sizes(self) -> list[tuple[str, int]]:
        rows = self._engine.rows(
            """SELECT partition, sum(bytes_on_disk) FROM system.parts WHERE active AND database = {database:String} AND table = 'rollup'
                GROUP BY partition""",
            {"database": self._database},
        )
        return [(partition, size) for partition, size in rows]


def rows_of(rollups: Sequence[model.Rollup]) -> list[Any]:
    """Values in the order of ROLLUP_COLUMNS, row after row; what no column holds becomes the nearest that it does."""
    return [
        value
        for rollup in rollups
        for value in (
            rollup.tenant,
            rollup.run,
            rollup.metric,
            NO_RANK if rollup.rank is None else min(max(rollup.rank, NO_RANK + 1), _HIGHEST),
            rollup.process,
            rollup.attributes,
            _time(rollup.window_ns),
            rollup.position,
            rollup.node,
            rollup.count,
            rollup.sum,
            rollup.sumsq,
            rollup.min,
            rollup.max,
            rollup.first,
            _time(rollup.first_ns),
            rollup.last,
            _time(rollup.last_ns),
            rollup.nonfinite,
            rollup.step_min,
            rollup.step_max,
        )
    ]


def _time(time_ns: int) -> int:
    return min(max(time_ns, 0), _HIGHEST)


def _where(query: SeriesQuery) -> tuple[str, dict[str, Any]]:
    where = [_ONE_SERIES]
    parameters: dict[str, Any] = {"tenant": query.tenant, "run": query.run, "metric": query.metric}
    for name, sql, value in (
        ("rank", "rank = {rank:Int64}", query.rank),
        ("since", "window_ns >= {since:Int64}", query.since_ns),
        ("until", "window_ns < {until:Int64}", query.until_ns),
    ):
        if value is not None:
            where.append(sql)
            parameters[name] = min(max(value, NO_RANK + 1), _HIGHEST)
    return " AND ".join(where), parameters


def _rank(stored: int) -> int | None:
    return None if stored == NO_RANK else stored


def _point(time_ns: int, sums: Sequence[Any]) -> SeriesPoint:
    count, mean, lowest, highest, last, nonfinite, step_min, step_max, _ = sums
    return SeriesPoint(
        time_ns=time_ns,
        count=count,
        mean=mean,
        min=lowest,
        max=highest,
        last=last,
        nonfinite=nonfinite,
        step_min=step_min,
        step_max=step_max,
    )
