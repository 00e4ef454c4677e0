"""An engine that starts late: writes wait for it, reads are refused meanwhile, failures are said and tried again."""

import threading

import pytest
import structlog

from firstfault_server import ports
from firstfault_server.adapters.memory.aggregates import MemoryAggregateStore
from firstfault_server.cli import late_aggregates
from firstfault_server.cli.late_aggregates import LateAggregates
from tests.contract.records import rollup

LOG = structlog.wrap_logger(structlog.PrintLogger(), wrapper_class=structlog.make_filtering_bound_logger(50))


def test_writes_wait_and_reads_are_refused_until_the_engine_is_there() -> None:
    release = threading.Event()

    def opening() -> MemoryAggregateStore:
        assert release.wait(10)
        return MemoryAggregateStore()

    late = LateAggregates(opening, LOG)
    assert late.problem
    with pytest.raises(ports.StoreUnavailable):
        late.metrics("acme", "r-1")
    writing = threading.Thread(target=late.write_rollups, args=([rollup(1)],))
    writing.start()
    release.set()
    writing.join(10)
    assert not writing.is_alive()
    assert late.problem == ""
    assert late.metrics("acme", "r-1") == ["train.loss"]
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

    def write() -> None:
        try:
            late.write_rollups([rollup(1)])
        except ports.StoreUnavailable as error:
            refused.append(error)

    writing = threading.Thread(target=write)
    writing.start()
    late._closing.set()
    late._settled.set()
    writing.join(10)
    assert len(refused) == 1
    release.set()
    late.close()
