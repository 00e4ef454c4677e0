"""ClickHouse for contract suites, always in another process: a test process that has imported chDB could not fork any more."""

import multiprocessing
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.managers import BaseManager
from pathlib import Path
from typing import Any, Final

from firstfault_server.adapters.clickhouse import ClickHouseAggregateStore, Engine, embedded_engine
from firstfault_server.core import model
from firstfault_server.ports import SeriesPoint, SeriesQuery

SERVE: Final = Path(__file__).parents[2] / "deploy" / "native" / "clickhouse" / "serve.py"
USER, PASSWORD = "app", "s3cret"
START_S: Final = 60.0


class EngineHost:
    """Runs in the other process: one embedded engine, any number of stores by database."""

    def __init__(self, path: Path) -> None:
        self._engine: Engine = embedded_engine(path)
        self._stores: dict[str, ClickHouseAggregateStore] = {}

    def call(self, database: str, method: str, *arguments: Any) -> Any:
        """Call a method of the store of a database, which is made if missing."""
        if database not in self._stores:
            self._stores[database] = ClickHouseAggregateStore(self._engine, database=database)
        return getattr(self._stores[database], method)(*arguments)

    def close(self) -> None:
        """Release the engine."""
        self._engine.close()


class HostManager(BaseManager):
    """Starts the other process and calls into it."""


HostManager.register("EngineHost", EngineHost)


class RemoteStore:
    """An AggregateStore in the other process."""

    def __init__(self, host: Any, database: str) -> None:
        self._host, self._database = host, database

    def write_rollups(self, rollups: Sequence[model.Rollup]) -> None:
        self._host.call(self._database, "write_rollups", list(rollups))

    def series(self, query: SeriesQuery) -> dict[tuple[int | None, str], list[SeriesPoint]]:
        answer: dict[tuple[int | None, str], list[SeriesPoint]] = self._host.call(self._database, "series", query)
        return answer

    def metrics(self, tenant: str, run: str) -> list[str]:
        names: list[str] = self._host.call(self._database, "metrics", tenant, run)
        return names

    def ranks(self, tenant: str, run: str, metric: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self._host.call(self._database, "ranks", tenant, run, metric)
        return rows

    def prune(self, before_ns: int) -> None:
        self._host.call(self._database, "prune", before_ns)

    def close(self) -> None:
        """The host closes the engine."""


@contextmanager
def embedded_host(path: Path) -> Iterator[Any]:
    """An EngineHost in a fresh process."""
    with HostManager(ctx=multiprocessing.get_context("spawn")) as manager:
        host = manager.EngineHost(path)  # type: ignore[attr-defined]  # made by register()
        yield host
        host.close()


@contextmanager
def clickhouse_server(folder: Path) -> Iterator[str]:
    """A ClickHouse server over HTTP; its address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    ready = folder / "ready"
    command = [sys.executable, str(SERVE), "--data", str(folder / "data"), "--port", str(port), "--ready", str(ready)]
    with (folder / "server.log").open("wb") as log:
        server = subprocess.Popen([*command, "--user", USER, "--password", PASSWORD], stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + START_S
        while not ready.exists():
            assert server.poll() is None, (folder / "server.log").read_text()
            assert time.monotonic() < deadline, "the ClickHouse server did not start"
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        try:
            server.wait(15)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()
