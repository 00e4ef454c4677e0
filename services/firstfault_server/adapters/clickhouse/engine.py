"""A pool of ClickHouse clients, one per call at a time, on the embedded engine or a server.

chDB is imported only when the embedded engine is opened: a process that has imported it must not fork.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec

from firstfault_server.adapters.clickhouse.errors import opening_failed, store_error
from firstfault_server.ports import StoreUnavailable

MEMORY_BYTES: Final = 600 << 20
"""Cap of the embedded engine. It overshoots by a third; idle it takes 250 MB."""
QUERY_SECONDS: Final = 8
"""A running query cannot be interrupted, and holds up the end of the process."""
CLIENTS: Final = 8
"""Calls that run at once; more wait."""

Client: TypeAlias = Any


class Engine:
    """Borrows clients to callers. Calls from several threads run in parallel, since each has a client of its own."""

    def __init__(self, place: str, connect: Callable[[], Client], *, clients: int = CLIENTS) -> None:
        """`place` names the engine in messages. Raises StoreUnavailable when it cannot be reached."""
        self.place = place
        self._connect = connect
        self._free = threading.Condition()
        self._idle: list[Client] = [connect()]
        self._made = 1
        self._most = clients
        self._closed = False

    @contextmanager
    def client(self) -> Iterator[Client]:
        """A client for the length of the block. Raises StoreUnavailable, StorageFull."""
        client = self._borrow()
        try:
            yield client
        except StoreUnavailable:
            raise
        except Exception as error:
            translated = store_error(error, self.place)
            if translated is None:
                raise
            raise translated from error
        finally:
            self._give_back(client)

    def command(self, sql: str, parameters: dict[str, Any] | None = None, settings: dict[str, Any] | None = None) -> None:
        """Run a statement without an answer."""
        with self.client() as client:
            client.command(sql, parameters=parameters, settings=settings)

    def rows(self, sql: str, parameters: dict[str, Any] | None = None) -> Sequence[Sequence[Any]]:
        """Rows of a query; values are bound, never written into the SQL."""
        with self.client() as client:
            rows: Sequence[Sequence[Any]] = client.query(
                sql, parameters=parameters, settings={"max_execution_time": QUERY_SECONDS}
            ).result_rows
        return rows

    def insert(self, table: str, columns: Sequence[str], values: list[Any]) -> None:
        """Insert rows, given as one flat list of values in the order of the columns. Durable when it returns.

        Raises UnicodeEncodeError, OverflowError for values that cannot be sent; StorageFull, StoreUnavailable.
        """
        # MessagePack: `client.insert` and Arrow both load pandas on their first call, which takes seconds and 60 MB.
        packed = memoryview(msgspec.msgpack.encode(values))
        with self.client() as client:
            client.raw_insert(table, list(columns), bytes(packed[_array_header(packed[0]) :]), fmt="MsgPack")

    def close(self) -> None:
        """Wait for running calls, a little, and release all clients; calls after it raise StoreUnavailable."""
        with self._free:
            self._closed = True
            self._free.wait_for(lambda: len(self._idle) == self._made, timeout=QUERY_SECONDS)
            for client in self._idle:
                client.close()
            self._idle.clear()
            self._made = 0

    def _borrow(self) -> Client:
        with self._free:
            self._free.wait_for(lambda: self._closed or bool(self._idle) or self._made < self._most, timeout=2 * QUERY_SECONDS)
            if self._closed:
                raise StoreUnavailable(f"{self.place}: is closed")
            if self._idle:
                return self._idle.pop()
            if self._made >= self._most:
                raise StoreUnavailable(f"{self.place}: too many queries at once")
            self._made += 1
        try:
            return self._connect()
        except BaseException:
            with self._free:
                self._made -= 1
                self._free.notify()
            raise

    def _give_back(self, client: Client) -> None:
        with self._free:
            if self._closed and self._made == 0:
                client.close()
                return
            self._idle.append(client)
            self._free.notify_all()


def embedded_engine(path: Path, *, memory_bytes: int = MEMORY_BYTES, clients: int = CLIENTS) -> Engine:
    """The engine in this process; `path` is made if missing. One process per path, one path per process, no fork afterwards.

    Raises StoreUnavailable: package missing, folder in use or not writable.
    """
    options = {
        "max_server_memory_usage": memory_bytes,
        # The defaults are sized for a machine that does nothing else.
        "mark_cache_size": 32 << 20,
        "uncompressed_cache_size": 0,
        "index_mark_cache_size": 16 << 20,
        "background_pool_size": 2,
        "background_schedule_pool_size": 4,
        "background_common_pool_size": 2,
        "max_concurrent_queries": 2 * clients,
    }
    try:
        import clickhouse_connect
    except ImportError as error:
        raise _missing(error) from error
    path.parent.mkdir(parents=True, exist_ok=True)

    def connect() -> Client:
        try:
            return clickhouse_connect.get_client(interface="chdb", path=str(path), chdb_options=options)
        except ImportError as error:
            raise _missing(error) from error
        except Exception as error:
            raise opening_failed(error, str(path)) from error

    return Engine(str(path), connect, clients=clients)


def server_engine(url: str, *, user: str = "default", password: str = "", clients: int = CLIENTS, timeout_s: float = 30) -> Engine:
    """A ClickHouse server at `http(s)://HOST:PORT`. Raises StoreUnavailable."""
    import clickhouse_connect

    def connect() -> Client:
        try:
            return clickhouse_connect.get_client(
                dsn=url,
                username=user,
                password=password,
                # Sessions of the server allow one query at a time and are not needed.
                autogenerate_session_id=False,
                connect_timeout=5,
                send_receive_timeout=timeout_s,
            )
        except Exception as error:
            raise store_error(error, url) or StoreUnavailable(f"{url}: cannot be reached: {error}") from error

    return Engine(url, connect, clients=clients)


def _array_header(first: int) -> int:
    """Bytes before the first value of a MessagePack array; ClickHouse wants the values alone."""
    return {0xDC: 3, 0xDD: 5}.get(first, 1)


def _missing(error: ImportError) -> StoreUnavailable:
    return StoreUnavailable(f"metrics need the package chdb, which is not installed ({error}); pip install 'clickhouse-connect[chdb]'")
