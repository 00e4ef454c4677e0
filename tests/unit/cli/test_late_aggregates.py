"""An engine that starts late: reads and writes are refused meanwhile, failures are said and tried again."""

import threading

import pytest
import structlog

from firstfault_server import ports
from firstfault_server.adapters.memory.aggregates import MemoryAggregateStore
from firstfault_server.cli import late_aggregates
from firstfault_server.cli.late_aggregates import LateAggregates
from firstfault_server.detect.rollup_writer import RollupWriter
from tests.contract.records import rollup

LOG = structlog.wrap_logger(structlog.PrintLogger(), wrapper_class=structlog.make_filtering_bound_logger(50))


def test_reads_and_writes_are_refused_until_the_engine_is_there() -> None:
    release = threading.Event()

    def opening() -> MemoryAggregateStore:
        assert release.wait(10)
        return MemoryAggregateStore()

    late = LateAggregates(opening, LOG)
    assert late.problem
    with pytest.raises(ports.StoreUnavailable, match="starting"):
        late.metrics("acme", "r-1")
    with pytest.raises(ports.StoreUnavailable, match="starting"):
        late.write_rollups([rollup(1)])
    release.set()
    late._thread.join(10)
    assert late.problem == ""
    late.write_rollups([rollup(1)])
    assert late.metrics("acme", "r-1") == ["train.loss"]
    late.close()


def test_rows_are_written_once_the_engine_is_there() -> None:
    release, refused = threading.Event(), threading.Event()

    def opening() -> MemoryAggregateStore:
        assert release.wait(10)
        return MemoryAggregateStore()

    late = LateAggregates(opening, LOG)
    writer = RollupWriter(late.write_rollups, refused.set)
    changes = writer.settle([rollup(1)], "1", 0.0)
    assert list(changes) == [("host", "rollups 1")]
    assert refused.wait(10)
    release.set()
    late._thread.join(10)
    assert writer.settle([], "2", 30.0) == {("host", "rollups 1"): None}
    assert late.metrics("acme", "r-1") == ["train.loss"]
    writer.stop()
    late.close()


def test_an_engine_that_cannot_be_opened_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(late_aggregates, "RETRY_S", 0.01)
    failures = [ports.StoreUnavailable("no room"), ports.StoreUnavailable("no room")]
    allowed = threading.Event()

    def opening() -> MemoryAggregateStore:
        if failures:
            raise failures.pop()
        assert allowed.wait(10)
        return MemoryAggregateStore()

    late = LateAggregates(opening, LOG)
    late._settled.wait(10)
    with pytest.raises(ports.StoreUnavailable, match="no room"):
        late.write_rollups([rollup(1)])
    assert late.problem == "no room"
    allowed.set()
    late._thread.join(10)
    late.write_rollups([rollup(1)])
    assert late.problem == ""
    late.close()


def test_closing_wakes_whoever_waits() -> None:
    release = threading.Event()

    def opening() -> MemoryAggregateStore:
        release.wait(10)
        return MemoryAggregateStore()

    late = LateAggregates(opening, LOG)
    refused: list[BaseException] = []

    def prune() -> None:
        try:
            late.prune(1)
        except ports.StoreUnavailable as error:
            refused.append(error)

    pruning = threading.Thread(target=prune)
    pruning.start()
    late._closing.set()
    late._settled.set()
    pruning.join(10)
    assert len(refused) == 1
    release.set()
    late.close()
