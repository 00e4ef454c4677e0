"""What goes by age, what goes by size, and that a store that is down holds up no other."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from firstfault_server.adapters.sqlite.database import Database
from firstfault_server.adapters.sqlite.events import SqliteContextStore
from firstfault_server.core.search import And
from firstfault_server.ports import ListQuery, StoreUnavailable
from firstfault_server.writer.retention import DAY_NS, Extent, Kept, Retention, RetentionMetrics, cut, size_cut
from tests.contract.records import NOW_NS, FixedClock, event

LOG = structlog.wrap_logger(structlog.ReturnLogger(), wrapper_class=structlog.make_filtering_bound_logger(0))


def kept(
    extents: list[Extent], prune: Callable[[int], object] = lambda before_ns: None, days: float = 10.0, max_bytes: int | None = None
) -> Kept:
    return Kept(name="events", prune=prune, extents=lambda: extents, days=days, max_bytes=max_bytes)


@pytest.mark.parametrize(
    ("sizes", "limit", "expected"),
    [
        ([], 0, None),
        ([5, 5, 5], 15, None),
        ([5, 5, 5], 14, 1),
        ([5, 5, 5], 10, 1),
        ([5, 5, 5], 9, 2),
        ([5, 5, 50], 9, 2),
        ([500], 9, None),
        ([0, 0, 0], 0, None),
    ],
)
def test_size_cut(sizes: list[int], limit: int, expected: int | None) -> None:
    assert size_cut([(number, size) for number, size in enumerate(sizes, start=1)], limit) == expected


@given(sizes=st.lists(st.integers(0, 100), max_size=20), limit=st.integers(0, 500))
def test_the_cut_leaves_as_much_as_fits_and_the_newest(sizes: list[int], limit: int) -> None:
    extents = [(number, size) for number, size in enumerate(sizes, start=1)]
    before = size_cut(extents, limit) or 0
    left = [size for end, size in extents if end > before]
    assert sum(left) <= limit or len(left) == 1
    if before:
        assert sum(size for end, size in extents if end >= before) > limit


def test_the_stricter_of_age_and_size_counts() -> None:
    extents = [(NOW_NS - 5 * DAY_NS, 100), (NOW_NS - 2 * DAY_NS, 100), (NOW_NS, 100)]
    assert cut(kept(extents), extents, NOW_NS) == (NOW_NS - 10 * DAY_NS, "age")
    assert cut(kept(extents, max_bytes=250), extents, NOW_NS) == (NOW_NS - 5 * DAY_NS, "size")
    assert cut(kept(extents, days=3, max_bytes=250), extents, NOW_NS) == (NOW_NS - 3 * DAY_NS, "age")
    assert cut(kept(extents, days=3, max_bytes=150), extents, NOW_NS) == (NOW_NS - 2 * DAY_NS, "size")


def test_a_store_that_is_down_holds_up_no_other() -> None:
    cuts: list[int] = []

    def down(before_ns: int) -> object:
        raise StoreUnavailable("down")

    def works(before_ns: int) -> int:
        cuts.append(before_ns)
        return 7

    registry = CollectorRegistry()
    Retention([kept([], down), kept([(1, 30)], works)], FixedClock(), RetentionMetrics(registry), LOG).prune()
    assert cuts == [NOW_NS - 10 * DAY_NS]
    labels = {"store": "events"}
    assert registry.get_sample_value("firstfault_retention_failures_total", labels) == 1
    assert registry.get_sample_value("firstfault_retention_removed_total", labels) == 7
    assert registry.get_sample_value("firstfault_retention_stored_bytes", labels) == 30
    assert registry.get_sample_value("firstfault_retention_prunes_total", labels | {"reason": "age"}) == 1


def test_on_a_real_store(tmp_path: Path) -> None:
    database = Database(tmp_path / "firstfault.sqlite")
    context = SqliteContextStore(database, segment_bytes=20_000)
    for number in range(100):
        context.write_events([event(number, body=" ".join(f"word{number}x{place}" for place in range(100)))])
    before = database.size_bytes()
    policy = Kept(name="events", prune=context.prune, extents=context.extents, days=10, max_bytes=60_000)
    Retention([policy], FixedClock(NOW_NS + DAY_NS), RetentionMetrics(CollectorRegistry()), LOG).prune()
    left = [item.id for item in context.events(ListQuery(tenant="acme", where=And(), limit=1000)).items]
    assert 10 < len(left) < 60
    assert left == [f"e-{number:04}" for number in range(99, 99 - len(left), -1)]
    assert sum(size for _, size in context.extents()) <= 60_000
    assert database.size_bytes() < before * 0.7
    database.close()


def test_it_runs_until_cancelled() -> None:
    rounds: list[int] = []

    async def scenario() -> None:
        enough = asyncio.Event()
        loop = asyncio.get_running_loop()

        def prune(before_ns: int) -> None:
            rounds.append(before_ns)
            if len(rounds) == 3:
                loop.call_soon_threadsafe(enough.set)

        task = asyncio.create_task(Retention([kept([], prune)], FixedClock(), RetentionMetrics(CollectorRegistry()), LOG).run(every_s=0))
        await asyncio.wait_for(enough.wait(), 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(scenario())
    assert len(rounds) >= 3


def test_of_several_the_one_that_leads_removes() -> None:
    rounds: list[int] = []
    leading = [False, False, True]

    async def scenario() -> None:
        done = asyncio.Event()

        def prune(before_ns: int) -> None:
            rounds.append(len(leading))
            loop.call_soon_threadsafe(done.set)

        loop = asyncio.get_running_loop()
        retention = Retention([kept([], prune)], FixedClock(), RetentionMetrics(CollectorRegistry()), LOG)
        task = asyncio.create_task(retention.run(every_s=3600, leads=lambda: leading.pop(0), look_s=0))
        await asyncio.wait_for(done.wait(), 60)
        task.cancel()

    asyncio.run(scenario())
    assert rounds == [0], "once, when it led"


def test_a_store_that_breaks_down_over_it_holds_up_no_other() -> None:
    gone: list[int] = []

    def breaks(before_ns: int) -> None:
        raise KeyError("somebody else removed it")

    registry = CollectorRegistry()
    Retention([kept([], breaks), kept([], gone.append)], FixedClock(), RetentionMetrics(registry), LOG).prune()
    assert len(gone) == 1
