"""The embedded host over a real file log: commits, restarts, stores that are down or choke."""

import asyncio
import threading
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry

from firstfault_server.adapters.filelog import FileLog
from firstfault_server.core import model
from firstfault_server.detect.embedded import EmbeddedHost
from firstfault_server.detect.telemetry import DetectMetrics
from firstfault_server.ports import Commit, LogEntry, StoreUnavailable
from tests.unit.detect.toys import S, ToyFleet, ToyRun, ToyWorker
from tests.unit.wire.requests import NOW, logs, metrics, resource


class Stores:
    """Aggregates, context and checkpoint in memory, that fail when told to."""

    def __init__(self) -> None:
        self.rollups: dict[tuple[str, str, str], model.Rollup] = {}
        self.events: dict[str, model.Event] = {}
        self.letters: dict[str, model.DeadLetter] = {}
        self.incidents: list[model.Incident] = []
        self.kept: dict[tuple[str, str], bytes] = {}
        self.at: str | None = None
        self.commits = 0
        self.down = threading.Event()
        self.refused = threading.Event()
        self.numbers_down = threading.Event()
        self.numbers_refused = threading.Event()

    def _check(self) -> None:
        if self.down.is_set():
            self.refused.set()
            raise StoreUnavailable("the store is down")

    def write_rollups(self, rollups: Sequence[model.Rollup]) -> None:
        if self.numbers_down.is_set():
            self.numbers_refused.set()
            raise StoreUnavailable("the engine is down")
        self.rollups.update({(r.process, r.metric, r.position): r for r in rollups})

    def write_events(self, events: Sequence[model.Event]) -> None:
        self._check()
        if any(event.body == "choke" for event in events):
            raise ValueError("cannot hold this")
        self.events.update({e.id: e for e in events})

    def write_dead_letters(self, letters: Sequence[model.DeadLetter]) -> None:
        self.letters.update({x.id: x for x in letters})

    def commit(self, commit: Commit) -> None:
        self._check()
        self.at = commit.position
        self.commits += 1
        self.incidents += commit.incidents
        for key, data in commit.snapshots.items():
            if data is None:
                self.kept.pop(key, None)
            else:
                self.kept[key] = data

    def position(self) -> str | None:
        return self.at

    def snapshots(self) -> Iterable[tuple[str, str, bytes]]:
        return [(stage, key, data) for (stage, key), data in self.kept.items()]


def host(log: FileLog, stores: Stores, monotonic: Any = None, patience_s: float = 30.0) -> EmbeddedHost:
    untyped: Any = stores
    return EmbeddedHost(
        stages={"worker": ToyWorker(), "run": ToyRun(), "fleet": ToyFleet()},
        log=log,
        checkpoint=untyped,
        aggregates=untyped,
        context=untyped,
        metrics=DetectMetrics(CollectorRegistry()),
        patience_s=patience_s,
        **({"monotonic": monotonic} if monotonic else {}),
    )


def put(log: FileLog, *entries: LogEntry) -> None:
    asyncio.run(log.append(entries))


def numbers(at: int, process: str = "p0", count: int = 2) -> LogEntry:
    body = metrics({"train.loss": [(at + i, 1.0) for i in range(count)]}, resource(process)).SerializeToString()
    return LogEntry(tenant="t", process=process, signal="metrics", received_ns=at, body=body)


def error(at: int, text: str, process: str = "p0") -> LogEntry:
    body = logs([{"event_name": "exception", "body": text, "time_unix_nano": at}], resource(process)).SerializeToString()
    return LogEntry(tenant="t", process=process, signal="logs", received_ns=at, body=body)


def clock(at: int) -> LogEntry:
    return LogEntry(tenant="", process="", signal="clock", received_ns=at)


def test_the_whole_road_and_a_restart_that_repeats_nothing(tmp_path: Path) -> None:
    log, stores = FileLog(tmp_path), Stores()
    put(log, numbers(NOW), error(NOW + 1, "boom"), error(NOW + 2, "bang", "p1"))
    first = host(log, stores)
    first.restore()
    while first.step():
        pass
    first.commit()
    assert [i.title for i in stores.incidents] == ["errors ['boom'] silent []"]
    assert sorted(e.body for e in stores.events.values()) == ["bang", "boom"]
    assert [r.count for r in stores.rollups.values()] == [2]

    put(log, clock(NOW + 2 * S), clock(NOW + 3 * S))
    second = host(log, stores)
    second.restore()
    assert second.step() == 2
    second.commit()
    assert [i.revision for i in stores.incidents] == [1, 2]
    assert stores.at == log.read(None, 1 << 20)[-1][0]
    third = host(log, stores)
    third.restore()
    assert third.step() == 0
    log.close()


def test_a_kill_between_commits_is_made_good_from_the_log(tmp_path: Path) -> None:
    log = FileLog(tmp_path)
    entries = [numbers(NOW), error(NOW + 1, "boom"), numbers(NOW + S), error(NOW + S + 5, "bang"), clock(NOW + 3 * S), clock(NOW + 4 * S)]
    put(log, *entries)

    def end(kills: Sequence[int]) -> tuple[Any, ...]:
        stores = Stores()
        for lost in [*kills, 0]:
            running = host(log, stores, monotonic=lambda: 0.0)
            running.restore()
            if lost:
                for position, entry in log.read(stores.at, 1 << 20)[:lost]:
                    running._take(position, entry)
                    running._position = position
                running.commit()
                for position, entry in log.read(stores.at, 1 << 20)[:1]:
                    running._take(position, entry)
            else:
                while running.step():
                    pass
                running.commit()
        del stores.kept["host", "clock"]
        return stores.rollups, stores.events, stores.incidents, stores.kept

    whole = end([])
    for kills in ([1], [2], [3], [1, 1, 1], [4], [5]):
        assert end(kills) == whole, kills
    log.close()


def test_an_incident_is_committed_at_once_and_numbers_in_batches(tmp_path: Path) -> None:
    log, stores, now = FileLog(tmp_path), Stores(), [0.0]
    running = host(log, stores, monotonic=lambda: now[0])
    running.restore()
    put(log, numbers(NOW))
    running.step()
    assert stores.commits == 0
    put(log, error(NOW + 1, "boom"))
    running.step()
    assert (stores.commits, len(stores.incidents)) == (1, 1)
    put(log, numbers(NOW + 2))
    running.step()
    assert stores.commits == 1
    now[0] += 1.0
    running.step()
    assert stores.commits == 2
    log.close()


def test_a_store_that_is_down_is_waited_for_and_said(tmp_path: Path) -> None:
    log, stores = FileLog(tmp_path), Stores()
    stores.down.set()
    running = host(log, stores)
    running.start()
    put(log, numbers(NOW), error(NOW + 1, "boom"))
    assert stores.refused.wait(10)
    stores.refused.clear()
    assert stores.refused.wait(10)
    said = [running.problem]
    assert stores.at is None
    stores.down.clear()
    assert running.stop()
    said.append(running.problem)
    assert said == ["the store is down", None]
    assert (len(stores.incidents), len(stores.rollups), len(stores.events)) == (1, 1, 1)
    log.close()


def test_incidents_do_not_wait_for_the_numbers_which_are_not_lost(tmp_path: Path) -> None:
    log, stores = FileLog(tmp_path), Stores()
    stores.numbers_down.set()
    running = host(log, stores, patience_s=0.0)
    running.restore()
    put(log, numbers(NOW), error(NOW + 1, "boom"))
    running.step()
    running.commit()
    assert len(stores.incidents) == 1
    assert stores.at == log.read(None, 1 << 20)[-1][0]
    deadline = time.monotonic() + 10
    while running.problem != "the engine is down":
        assert time.monotonic() < deadline
        stores.numbers_refused.wait(0.01)
    assert stores.rollups == {}
    running.stop()

    # Killed and started again, still down, then up: the rows come from the commit, not from the log.
    again = host(log, stores)
    again.restore()
    stores.numbers_down.clear()
    put(log, numbers(NOW + S))
    again.step()
    again.commit()
    assert [r.count for r in stores.rollups.values()] == [2, 2]
    assert not any(key.startswith("rollups") for _, key in stores.kept)
    assert again.problem is None
    again.stop()
    log.close()


def test_stopping_with_a_store_down_commits_nothing_and_loses_nothing(tmp_path: Path) -> None:
    log, stores = FileLog(tmp_path), Stores()
    stores.down.set()
    running = host(log, stores)
    running.start()
    put(log, error(NOW + 1, "boom"))
    assert stores.refused.wait(10)
    assert running.stop()
    assert stores.at is None
    stores.down.clear()
    again = host(log, stores)
    again.restore()
    again.step()
    again.commit()
    assert len(stores.incidents) == 1
    log.close()


def test_an_event_that_a_store_chokes_on_costs_only_itself(tmp_path: Path) -> None:
    log, stores = FileLog(tmp_path), Stores()
    put(log, error(NOW, "before"), error(NOW + 1, "choke"), error(NOW + 2, "after"))
    running = host(log, stores, monotonic=lambda: 0.0)
    running.restore()
    for position, entry in log.read(None, 1 << 20):
        running._take(position, entry)
        running._position = position
    running.commit()
    assert sorted(e.body for e in stores.events.values()) == ["after", "before"]
    assert [x.reason for x in stores.letters.values()] == ["cannot be stored: ValueError: cannot hold this"]
    log.close()


def test_bytes_that_cannot_be_decoded_are_buried_with_a_reason(tmp_path: Path) -> None:
    log, stores = FileLog(tmp_path), Stores()
    put(log, LogEntry(tenant="t", process="p", signal="logs", received_ns=NOW, body=b"\xff\xff"), numbers(NOW + 1))
    running = host(log, stores)
    running.restore()
    running.step()
    running.commit()
    (letter,) = stores.letters.values()
    assert (letter.tenant, letter.signal, letter.data) == ("t", "logs", b"\xff\xff")
    assert "not an OTLP logs request" in letter.reason
    assert len(stores.rollups) == 1
    log.close()
