"""How fast the embedded stores take and give, as ratios to plain work of the same kind in the same run."""

import json
import sqlite3
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from firstfault_server.adapters import sqlite
from firstfault_server.core import model
from firstfault_server.core.search import And, Expression, Term, Text
from firstfault_server.ports import Commit, ListQuery
from tests.contract.records import FixedClock, event, incident

pytestmark = pytest.mark.bench

EVENTS, BATCH = 10_000, 500
STACK = "Traceback (most recent call last):\n" + "\n".join(
    f'  File "/opt/venv/lib/python3.11/site-packages/torch/module_{line}.py", line {line}, in call_{line}\n    self.call(value_{line})'
    for line in range(25)
)


def crash(number: int) -> model.Event:
    """An exception with a stack trace of 2.9 kB, as the n-th of many ranks would send it."""
    exception = model.ExceptionInfo(type="torch.OutOfMemoryError", message=f"CUDA out of memory, try {number}", stacktrace=STACK)
    return event(
        number, rank=number % 64, process=f"p-{number % 64}", exception=exception, fingerprint=f"f-{number % 50}", run=f"r-{number % 20}"
    )


class Times(NamedTuple):
    """How long a call takes, in milliseconds. Bounds are set on the median: other work on the machine makes the p99."""

    p50: float
    p99: float


def measure(ask: Callable[[], object], times: int = 100) -> Times:
    """Call it often."""
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        ask()
        taken.append((time.perf_counter() - start) * 1e3)
    return Times(statistics.median(taken), statistics.quantiles(taken, n=100)[98])


def report(**figures: Any) -> None:
    """One line per figure."""
    print()
    for name, figure in figures.items():
        if isinstance(figure, list | tuple):
            figure = Times(*figure)
        text = f"p50 {figure.p50:,.2f} ms, p99 {figure.p99:,.2f} ms" if isinstance(figure, Times) else f"{figure:,.2f}"
        print(f"{name:34} {text}")


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[sqlite.SqliteStores, float, float]]:
    """A store with many events; CPU seconds for them, and for a bare table with the same records."""
    folder = tmp_path_factory.mktemp("bench")
    batches = [[crash(number) for number in range(start, start + BATCH)] for start in range(0, EVENTS, BATCH)]
    bare = sqlite3.connect(folder / "bare.sqlite", isolation_level=None)
    bare.execute("PRAGMA journal_mode=WAL")
    bare.execute("PRAGMA synchronous=NORMAL")
    bare.execute("CREATE TABLE event (id TEXT PRIMARY KEY, record BLOB)")
    start = time.process_time()
    for batch in batches:
        bare.execute("BEGIN IMMEDIATE")
        bare.executemany("INSERT INTO event VALUES (?, ?)", [(item.id, msgspec.msgpack.encode(item)) for item in batch])
        bare.execute("COMMIT")
    plain_s = time.process_time() - start
    bare.close()
    stores = sqlite.open_stores(folder / "firstfault.sqlite", FixedClock())
    start = time.process_time()
    for batch in batches:
        stores.context.write_events(batch)
    indexed_s = time.process_time() - start
    yield stores, indexed_s, plain_s
    stores.close()


def test_events_are_indexed_at_a_bounded_cost(filled: tuple[sqlite.SqliteStores, float, float]) -> None:
    stores, indexed_s, plain_s = filled
    report(
        events_per_cpu_s=EVENTS / indexed_s,
        bare_rows_per_cpu_s=EVENTS / plain_s,
        ratio=indexed_s / plain_s,
        bytes_per_event=stores.database.size_bytes() / EVENTS,
    )
    # Compression and full text of 2.9 kB against one bare row: 5 to 8 on a quiet machine.
    assert indexed_s < 25 * plain_s


def test_searches_are_quick(filled: tuple[sqlite.SqliteStores, float, float]) -> None:
    stores, _, _ = filled
    newest = measure(lambda: stores.context.events(ListQuery(tenant="acme", limit=20)))
    searches: dict[str, Expression] = {
        "rare word": Text(value=f"{EVENTS // 2}"),
        "common phrase": Text(value="CUDA out of memory", phrase=True),
        "phrase of a run": And(parts=(Text(value="out of memory", phrase=True), Term(key="run", value="r-7"))),
        "rank": Term(key="rank", value="60", operator=">"),
        "fingerprint": Term(key="fingerprint", value="f-7"),
        "nothing": Term(key="symptom", value="never"),
    }
    queries = {name: ListQuery(tenant="acme", where=where, limit=20) for name, where in searches.items()}
    times = {name: measure(partial(stores.context.events, query)) for name, query in queries.items()}
    fingerprints = measure(lambda: stores.context.fingerprints(ListQuery(tenant="acme", limit=20)), times=20)
    report(newest=newest, **times, fingerprints=fingerprints)
    assert max(figure.p50 for figure in times.values()) < 300 * newest.p50
    assert fingerprints.p50 < 1000 * newest.p50


def test_a_commit_costs_little_more_than_its_flush(filled: tuple[sqlite.SqliteStores, float, float]) -> None:
    stores, _, _ = filled
    counter = iter(range(1_000_000))

    def commit(size: int) -> None:
        number = next(counter)
        states: dict[tuple[str, str], bytes | None] = {("worker", f"{key}"): bytes(6000) for key in range(size)}
        stores.checkpoint.commit(Commit(position=str(number), snapshots=states, incidents=[incident(1, revision=number)]))

    small, large = measure(lambda: commit(1), 50), measure(lambda: commit(128), 50)
    report(commit_of_1_state=small, commit_of_128_states=large)
    assert large.p50 < 100 * small.p50


def test_rollups_are_stored_at_a_bounded_cost_and_read_quickly(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-m", "tests.bench.rollup_load", str(tmp_path)], capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    report(**{name: list(figure.values()) if isinstance(figure, dict) else figure for name, figure in figures.items()})
    # The engine's own work, merges included, against packing the values in Python.
    assert figures["insert_us"] < 30 * figures["encode_us"]
    assert figures["series_of_one_rank_ms"]["p50"] < 100 * figures["nothing_ms"]["p50"]
    assert figures["series_of_all_ranks_ms"]["p50"] < 1000 * figures["nothing_ms"]["p50"]
