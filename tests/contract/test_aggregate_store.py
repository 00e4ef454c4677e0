"""What every AggregateStore promises."""

import itertools
import math
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from firstfault_server.adapters.clickhouse import ClickHouseAggregateStore, server_engine
from firstfault_server.adapters.clickhouse.tables import SLOTS
from firstfault_server.adapters.memory.aggregates import MemoryAggregateStore
from firstfault_server.core.buckets import WINDOW_NS
from firstfault_server.ports import AggregateStore, SeriesQuery, StoreUnavailable
from tests.contract.engines import PASSWORD, USER, RemoteStore, clickhouse_server, embedded_host
from tests.contract.records import DAY_NS, NOW_NS, rollup

ABSURD = 128
LOSS = SeriesQuery(tenant="acme", run="r-1", metric="train.loss")


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The embedded engine, in a process of its own."""
    with embedded_host(tmp_path_factory.mktemp("embedded") / "metrics") as opened:
        yield opened


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real server."""
    with clickhouse_server(tmp_path_factory.mktemp("server")) as opened:
        yield opened


@pytest.fixture(scope="module")
def numbers() -> Iterator[int]:
    """Numbers for databases."""
    return itertools.count()


@pytest.fixture(params=["memory", "embedded", "server"])
def store(request: pytest.FixtureRequest, numbers: Iterator[int]) -> Iterator[AggregateStore]:
    """Every adapter, empty."""
    database = f"test_{next(numbers)}"
    opened: AggregateStore
    if request.param == "memory":
        opened = MemoryAggregateStore()
    elif request.param == "embedded":
        opened = RemoteStore(request.getfixturevalue("host"), database)
    else:
        engine = server_engine(request.getfixturevalue("address"), user=USER, password=PASSWORD, clients=2)
        opened = ClickHouseAggregateStore(engine, database=database)
    yield opened
    opened.close()


def test_nothing_written_is_nothing_read(store: AggregateStore) -> None:
    assert store.series(LOSS) == {}
    assert store.metrics("acme", "r-1") == []
    assert store.ranks("acme", "r-1", "train.loss") == []
    store.write_rollups([])
    store.prune(NOW_NS)


def test_deltas_of_a_window_are_summed(store: AggregateStore) -> None:
    store.write_rollups(
        [
            rollup(0, position="a", count=3, sum=6.0, min=1.0, max=3.0, last=3.0, last_ns=NOW_NS + 3, step_min=5, step_max=7),
            rollup(
                0, position="b", count=2, sum=10.0, min=-4.0, max=14.0, last=14.0, last_ns=NOW_NS + 9, nonfinite=0, step_min=8, step_max=9
            ),
            rollup(
                0, position="c", count=2, sum=0.5, min=0.5, max=0.5, last=0.5, last_ns=NOW_NS + 1, nonfinite=1, step_min=None, step_max=None
            ),
        ]
    )
    (points,) = store.series(LOSS).values()
    (point,) = points
    assert (point.time_ns, point.count, point.nonfinite) == (NOW_NS, 7, 1)
    assert point.mean == pytest.approx(16.5 / 6)
    assert (point.min, point.max, point.last, point.step_min, point.step_max) == (-4.0, 14.0, 14.0, 5, 9)


def test_the_same_delta_twice_counts_once(store: AggregateStore) -> None:
    batch = [rollup(window) for window in range(5)]
    store.write_rollups(batch + batch[:2])
    store.write_rollups(batch)
    store.write_rollups([*batch[3:], rollup(7)])
    (points,) = store.series(LOSS).values()
    assert [point.count for point in points] == [1] * 6
    assert store.ranks("acme", "r-1", "train.loss")[0]["count"] == 6


@pytest.mark.parametrize(
    "change",
    [{"process": "p-9"}, {"attributes": '{"layer":"1"}'}, {"position": "zz"}, {"window_ns": NOW_NS + 2 * WINDOW_NS}],
    ids=lambda change: next(iter(change)),
)
def test_each_part_of_the_key_tells_deltas_apart(store: AggregateStore, change: dict[str, Any]) -> None:
    store.write_rollups([rollup(0), rollup(0, **change)])
    assert sum(row["count"] for row in store.ranks("acme", "r-1", "train.loss")) == 2


def test_values_that_are_not_finite(store: AggregateStore) -> None:
    nan = math.nan
    store.write_rollups(
        [rollup(0, sum=0.0, min=None, max=None, first=nan, last=nan, nonfinite=1), rollup(1, last=math.inf, last_ns=NOW_NS + WINDOW_NS)]
    )
    (points,) = store.series(LOSS).values()
    assert (points[0].mean, points[0].min, points[0].max, points[0].nonfinite) == (None, None, None, 1)
    assert points[0].last is not None and math.isnan(points[0].last)
    assert points[1].last == math.inf
    assert store.ranks("acme", "r-1", "train.loss")[0]["last"] == math.inf


def test_the_latest_known_value_is_the_last(store: AggregateStore) -> None:
    lasts = [rollup(0, position=f"{age}", last=float(age), last_ns=NOW_NS - age) for age in (2, 1, 3)]
    store.write_rollups([*lasts, rollup(0, position="none", last=None, last_ns=NOW_NS)])
    (points,) = store.series(LOSS).values()
    assert points[0].last == 1.0
    assert store.ranks("acme", "r-1", "train.loss")[0]["last"] == 1.0


def test_series_are_told_apart_by_rank_and_process(store: AggregateStore) -> None:
    store.write_rollups(
        [rollup(0), rollup(0, process="p-1", rank=1, last=5.0), rollup(1, process="p-2", rank=1), rollup(0, process="p-x", rank=None)]
    )
    assert set(store.series(LOSS)) == {(0, "p-0"), (1, "p-1"), (1, "p-2"), (None, "p-x")}
    one = SeriesQuery(tenant="acme", run="r-1", metric="train.loss", rank=1)
    assert set(store.series(one)) == {(1, "p-1"), (1, "p-2")}
    assert [(row["rank"], row["process"]) for row in store.ranks("acme", "r-1", "train.loss")] == [
        (0, "p-0"),
        (1, "p-1"),
        (1, "p-2"),
        (None, "p-x"),
    ]


def test_tenants_runs_and_metrics_are_apart(store: AggregateStore) -> None:
    store.write_rollups(
        [rollup(0), rollup(0, tenant="other"), rollup(0, run="r-2"), rollup(0, metric="train.grad_norm"), rollup(1, metric="a'b\\")]
    )
    (points,) = store.series(LOSS).values()
    assert [point.count for point in points] == [1]
    assert store.metrics("acme", "r-1") == ["a'b\\", "train.grad_norm", "train.loss"]
    assert store.metrics("other", "r-1") == ["train.loss"]
    assert store.metrics("acme", "r-1' OR '1'='1") == []


@pytest.mark.parametrize("points", [1, 7, 100, 500])
def test_points_bound_the_buckets_and_lose_nothing(store: AggregateStore, points: int) -> None:
    store.write_rollups([rollup(window, position=f"{window}") for window in range(300)])
    query = SeriesQuery(tenant="acme", run="r-1", metric="train.loss", points=points)
    (series,) = store.series(query).values()
    assert len(series) <= max(points, 2)
    assert sum(point.count for point in series) == 300
    assert {point.time_ns % WINDOW_NS for point in series} == {0}
    assert (series[0].step_min, series[-1].step_max) == (0, 299)


def test_a_period_is_half_open(store: AggregateStore) -> None:
    store.write_rollups([rollup(window) for window in range(6)])
    query = SeriesQuery(tenant="acme", run="r-1", metric="train.loss", since_ns=NOW_NS + WINDOW_NS, until_ns=NOW_NS + 3 * WINDOW_NS)
    (points,) = store.series(query).values()
    assert [point.time_ns for point in points] == [NOW_NS + WINDOW_NS, NOW_NS + 2 * WINDOW_NS]


def test_empty_buckets_are_left_out(store: AggregateStore) -> None:
    store.write_rollups([rollup(0), rollup(50)])
    (points,) = store.series(LOSS).values()
    assert [point.time_ns for point in points] == [NOW_NS, NOW_NS + 50 * WINDOW_NS]


def test_absurd_times_and_numbers_harm_nothing(store: AggregateStore) -> None:
    absurd = [rollup(0, window_ns=day * DAY_NS * 17, position=f"x{day}", run="r-absurd") for day in range(300)]
    store.write_rollups(
        [*absurd, rollup(0, rank=(1 << 63) - 1, process="p-1"), rollup(0, run="r-lone \ud800", position="\ud800"), rollup(0)]
    )
    assert (0, "p-0") in store.series(LOSS)
    assert store.ranks("acme", "r-absurd", "train.loss")[0]["count"] == 300
    (points,) = store.series(SeriesQuery(tenant="acme", run="r-absurd", metric="train.loss", points=10)).values()
    assert len(points) <= 10
    assert sum(point.count for point in points) == 300


def test_absurd_times_one_by_one_make_few_partitions(address: str, numbers: Iterator[int]) -> None:
    database = f"test_{next(numbers)}"
    engine = server_engine(address, user=USER, password=PASSWORD, clients=1)
    store = ClickHouseAggregateStore(engine, database=database)
    # Every insert has a day of its own, from 1970 to the last that a window can have, and every partition gets two.
    apart = ((1 << 63) - 1) // DAY_NS // ABSURD | 1
    for number in range(ABSURD):
        store.write_rollups([rollup(0, window_ns=number * apart * DAY_NS, position=f"{number}")])
    parts = "SELECT uniqExact(partition) FROM system.parts WHERE database = {database:String} AND table = 'rollup'"
    assert engine.rows(parts, {"database": database})[0][0] == SLOTS
    assert sum(row["count"] for row in store.ranks("acme", "r-1", "train.loss")) == ABSURD
    store.close()


def test_prune_drops_whole_days_that_are_older(store: AggregateStore) -> None:
    store.write_rollups([rollup(0, window_ns=NOW_NS - age * DAY_NS, position=f"{age}") for age in range(6)])
    store.prune(NOW_NS - 3 * DAY_NS)
    (points,) = store.series(SeriesQuery(tenant="acme", run="r-1", metric="train.loss", points=10_000_000)).values()
    assert {(NOW_NS - point.time_ns) // DAY_NS for point in points} >= {0, 1, 2, 3}
    assert all(NOW_NS - point.time_ns <= 4 * DAY_NS for point in points)
    store.prune(NOW_NS + 2 * DAY_NS)
    assert store.series(LOSS) == {}


def test_prune_of_days_that_share_a_partition(store: AggregateStore) -> None:
    store.write_rollups([rollup(0, window_ns=NOW_NS - age * DAY_NS, position=f"{age}") for age in (0, 64, 128)])
    store.prune(NOW_NS - 100 * DAY_NS)
    assert sum(row["count"] for row in store.ranks("acme", "r-1", "train.loss")) == 2


def test_this_process_can_still_fork(store: AggregateStore) -> None:
    assert "chdb" not in sys.modules


def test_a_server_that_is_not_there_is_unavailable() -> None:
    with pytest.raises(StoreUnavailable, match=r"127\.0\.0\.1:1"):
        server_engine("http://127.0.0.1:1", timeout_s=1)


def test_a_wrong_password_is_refused(address: str) -> None:
    with pytest.raises(StoreUnavailable, match="refuses"):
        server_engine(address, user=USER, password="wrong")
