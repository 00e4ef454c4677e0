"""Loads an embedded ClickHouse store and asks it; for tests/bench/test_stores.py, in a process of its own.

Usage: python -m tests.bench.rollup_load FOLDER; prints figures as JSON.
"""

import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from firstfault_server.adapters.clickhouse import ClickHouseAggregateStore, embedded_engine
from firstfault_server.adapters.clickhouse.rollups import rows_of
from firstfault_server.core import model
from firstfault_server.ports import SeriesQuery

START_NS = 1_790_000_000_000_000_000
RANKS, METRICS, WINDOWS_PER_BATCH, BATCHES = 64, 10, 10, 30


def batch(number: int) -> list[model.Rollup]:
    """Ten windows of ten metrics of 64 ranks, as a commit of the host writes them."""
    return [
        model.Rollup(
            tenant="acme",
            run="r-1",
            process=f"process-{rank}",
            rank=rank,
            metric=f"metric.{metric}",
            window_ns=START_NS + (number * WINDOWS_PER_BATCH + window) * 10 * model.SECOND_NS,
            position=f"{number:012}.{window:06}",
            count=20,
            sum=20.5 * rank,
            sumsq=21.5 * window,
            min=0.25 * metric,
            max=1.75 * rank,
            first=1.0,
            first_ns=START_NS,
            last=1.5 * window,
            last_ns=START_NS + (number * WINDOWS_PER_BATCH + window) * 10 * model.SECOND_NS + 9,
            step_min=number,
            step_max=number + 20,
        )
        for window in range(WINDOWS_PER_BATCH)
        for metric in range(METRICS)
        for rank in range(RANKS)
    ]


def milliseconds(ask: Callable[[], object], times: int = 40) -> dict[str, float]:
    """p50 and p99 of a call."""
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        ask()
        taken.append((time.perf_counter() - start) * 1e3)
    return {"p50": statistics.median(taken), "p99": statistics.quantiles(taken, n=100)[98]}


def main(folder: Path) -> None:
    """Print the figures."""
    batches = [batch(number) for number in range(BATCHES)]
    rows = sum(map(len, batches))
    start = time.process_time()
    for rollups in batches:
        msgspec.msgpack.encode(rows_of(rollups))
    encode_us = (time.process_time() - start) / rows * 1e6
    engine = embedded_engine(folder / "metrics")
    store = ClickHouseAggregateStore(engine)
    store.write_rollups(batches[0])
    start, wall = time.process_time(), time.perf_counter()
    for rollups in batches:
        store.write_rollups(rollups)
    insert_us = (time.process_time() - start) / rows * 1e6
    seconds = time.perf_counter() - wall
    every = SeriesQuery(tenant="acme", run="r-1", metric="metric.3", points=100)
    one = SeriesQuery(tenant="acme", run="r-1", metric="metric.3", rank=7)
    figures = {
        "rows": rows,
        "rows_per_s": rows / seconds,
        "encode_us": encode_us,
        "insert_us": insert_us,
        "bytes_per_row": store.size_bytes() / rows,
        "nothing_ms": milliseconds(lambda: engine.rows("SELECT 1")),
        "series_of_one_rank_ms": milliseconds(lambda: store.series(one)),
        "series_of_all_ranks_ms": milliseconds(lambda: store.series(every)),
        "ranks_ms": milliseconds(lambda: store.ranks("acme", "r-1", "metric.3")),
        "metrics_ms": milliseconds(lambda: store.metrics("acme", "r-1")),
    }
    store.close()
    print(json.dumps(figures))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
