"""The pool of ClickHouse clients and the translation of errors, with clients that only look like one."""

import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import pytest

from firstfault_server.adapters.clickhouse import ClickHouseAggregateStore, Engine
from firstfault_server.adapters.clickhouse.errors import opening_failed, store_error
from firstfault_server.ports import StorageFull, StoreUnavailable


class DatabaseError(Exception):
    """As clickhouse_connect raises it."""

    def __init__(self, message: str, code: int | None = None) -> None:
        super().__init__(message)
        self.code = code


class OperationalError(Exception):
    """As clickhouse_connect raises it when the server is gone."""


class FakeClient:
    """Answers what it is told and notes whether it is used by two threads at once."""

    def __init__(self, act: Callable[[], Any] = lambda: None) -> None:
        self.act = act
        self.closed = False
        self.inserted: list[tuple[str, list[str], bytes]] = []
        self._busy = threading.Lock()

    def command(self, sql: str, parameters: Any = None, settings: Any = None) -> None:
        assert self._busy.acquire(blocking=False), "one client, two threads"
        try:
            self.act()
        finally:
            self._busy.release()

    def raw_insert(self, table: str, columns: list[str], data: bytes, fmt: str) -> None:
        assert fmt == "MsgPack"
        self.inserted.append((table, columns, data))

    def close(self) -> None:
        self.closed = True


@pytest.mark.parametrize(
    ("error", "kind", "says"),
    [
        (DatabaseError("Code: 243. DB::Exception: Cannot reserve", 243), StorageFull, "no space left"),
        (DatabaseError("Code: 75. Cannot write to file: errno: 28, strerror: No space left on device", 75), StorageFull, "no space left"),
        (DatabaseError("Code: 241. Memory limit (total) exceeded", 241), StoreUnavailable, "more memory"),
        (DatabaseError("Code: 159. Timeout exceeded", 159), StoreUnavailable, "took longer"),
        (DatabaseError("Code: 516. Authentication failed", 516), StoreUnavailable, "refuses"),
        (DatabaseError("Code: 252. Too many parts", 252), StoreUnavailable, "busy"),
        (DatabaseError("without a number: Code: 394. cancelled"), StoreUnavailable, "busy"),
        (OperationalError("Connection refused"), StoreUnavailable, "does not answer"),
    ],
)
def test_errors_that_are_no_fault_of_the_caller(error: Exception, kind: type[Exception], says: str) -> None:
    translated = store_error(error, "/data/metrics")
    assert type(translated) is kind
    assert str(translated).startswith("/data/metrics: ")
    assert says in str(translated)


@pytest.mark.parametrize(
    "error", [DatabaseError("Code: 27. Cannot parse input", 27), ValueError("x"), UnicodeEncodeError("utf-8", "x", 0, 1, "x")]
)
def test_errors_of_the_caller_stay_what_they_are(error: Exception) -> None:
    assert store_error(error, "/data/metrics") is None

    def act() -> None:
        raise error

    engine = Engine("/data/metrics", lambda: FakeClient(act))
    with pytest.raises(type(error)):
        engine.command("INSERT")
    engine.close()


def test_why_an_engine_does_not_open() -> None:
    locked = RuntimeError("Failed to create connection: Code: 36. DB::Exception: Error initializing EmbeddedServer: . (BAD_ARGUMENTS)")
    assert "another process has it open" in str(opening_failed(locked, "/data/metrics"))
    assert type(opening_failed(RuntimeError("errno: 28, No space left on device"), "/data/metrics")) is StorageFull
    assert "something else" in str(opening_failed(RuntimeError("something else\nwith a trace"), "/data/metrics"))


def test_calls_run_in_parallel_each_on_a_client_of_its_own() -> None:
    together = threading.Barrier(3, timeout=10)
    clients: list[FakeClient] = []

    def connect() -> FakeClient:
        clients.append(FakeClient(together.wait))
        return clients[-1]

    engine = Engine("here", connect, clients=3)
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(engine.command, ["SELECT 1"] * 6))
    assert len(clients) == 3
    engine.close()
    assert all(client.closed for client in clients)


def test_a_client_comes_back_after_an_error() -> None:
    def act() -> None:
        raise OperationalError("gone")

    made: list[FakeClient] = []

    def connect() -> FakeClient:
        made.append(FakeClient(act))
        return made[-1]

    engine = Engine("here", connect, clients=1)
    for _ in range(3):
        with pytest.raises(StoreUnavailable):
            engine.command("SELECT 1")
    assert len(made) == 1
    engine.close()


def test_a_failed_connection_takes_no_place() -> None:
    tries: list[int] = []

    def connect() -> FakeClient:
        tries.append(1)
        if len(tries) == 2:
            raise StoreUnavailable("refused")
        return FakeClient()

    engine = Engine("here", connect, clients=2)
    with engine.client(), pytest.raises(StoreUnavailable, match="refused"), engine.client():
        pass
    with engine.client(), engine.client():
        assert len(tries) == 3
    engine.close()


def test_closing_waits_for_a_running_call_and_refuses_later_ones() -> None:
    started, go_on = threading.Event(), threading.Event()

    def act() -> None:
        started.set()
        assert go_on.wait(10)

    client = FakeClient(act)
    engine = Engine("here", lambda: client, clients=1)
    with ThreadPoolExecutor(2) as pool:
        call = pool.submit(engine.command, "SELECT 1")
        assert started.wait(10)
        closing = pool.submit(engine.close)
        closed_early = client.closed
        go_on.set()
        closing.result(10)
        call.result(10)
    assert (closed_early, client.closed) == (False, True)
    with pytest.raises(StoreUnavailable, match="is closed"):
        engine.command("SELECT 1")


def test_closing_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("firstfault_server.adapters.clickhouse.engine.QUERY_SECONDS", 0.02)
    client = FakeClient()
    engine = Engine("here", lambda: client, clients=1)
    with engine.client():
        engine.close()
        closed_in_use = client.closed
    assert (closed_in_use, client.closed) == (False, True)


@pytest.mark.parametrize("count", [1, 15, 16, 1000, 65_535, 65_536])
def test_an_insert_sends_the_bare_values(count: int) -> None:
    client = FakeClient()
    engine = Engine("here", lambda: client)
    engine.insert("t", ["a"], list(range(count)))
    ((table, columns, data),) = client.inserted
    assert (table, columns) == ("t", ["a"])
    assert data == b"".join(map(msgspec.msgpack.encode, range(count)))
    engine.close()


def test_a_database_name_is_never_pasted_unchecked() -> None:
    engine = Engine("here", FakeClient)
    with pytest.raises(ValueError, match="cannot be the name"):
        ClickHouseAggregateStore(engine, database="x; DROP DATABASE y")
    engine.close()


def test_importing_the_adapter_does_not_import_the_engine() -> None:
    assert "firstfault_server.adapters.clickhouse" in sys.modules
    assert "chdb" not in sys.modules
