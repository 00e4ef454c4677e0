"""ClickHouse's engine behind its own HTTP handler, out of the chDB wheel, in place of a server, for tests and laptops.

    python deploy/native/clickhouse/serve.py --data DIR --port 8123 [--user NAME --password WORD] [--ready FILE]

The wheel's `_chdb.query` runs clickhouse-local, which reads ./config.xml and knows `SYSTEM START LISTEN`; a query without end
keeps it alive. What answers is ClickHouse's own HTTP handler. It has no Keeper, so no replicated tables, and no HTTPS.
SIGTERM or SIGINT ends it: running queries fail with code 394.
"""

import argparse
import os
import signal
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

START_S = 60.0
STOP_S = 3.0
"""With connections open clickhouse-local waits longer than this and then fails; acknowledged rows are with the kernel already."""
LISTEN_AND_PARK = (
    "SYSTEM START LISTEN HTTP; SELECT sleepEachRow(1) FROM system.numbers FORMAT Null SETTINGS max_block_size = 1, max_threads = 1, "
    "function_sleep_max_microseconds_per_block = 0, max_execution_time = 0, max_memory_usage = 0"
)
KILL_ALL = "KILL QUERY WHERE query_id != queryID() ASYNC"
SETTINGS = {
    "mark_cache_size": 64 << 20,
    "uncompressed_cache_size": 0,
    "background_pool_size": 2,
    "background_common_pool_size": 2,
    "background_schedule_pool_size": 8,
    "background_fetches_pool_size": 1,
    "background_move_pool_size": 1,
}
MERGE_SETTINGS = {
    "number_of_free_entries_in_pool_to_execute_mutation": 2,
    "number_of_free_entries_in_pool_to_lower_max_size_of_merge": 2,
    "number_of_free_entries_in_pool_to_execute_optimize_entire_partition": 2,
}


class Server:
    """One server: its folder, port and account."""

    def __init__(self, data: Path, port: int, user: str, password: str, memory_bytes: int) -> None:
        self.data = data.resolve()
        self.config = self.data.with_name(f"{self.data.name}.conf")
        self.port, self.user, self.password, self.memory_bytes = port, user, password, memory_bytes
        self.failure: str | None = None
        self.ended = threading.Event()

    def write_config(self) -> None:
        """config.xml and users.xml, readable by the owner only."""
        self.data.mkdir(parents=True, exist_ok=True)
        self.config.mkdir(parents=True, exist_ok=True)
        users = self.config / "users.xml"
        settings = {"http_port": self.port, "listen_host": "127.0.0.1", "users_config": users, "max_server_memory_usage": self.memory_bytes}
        elements = _elements(settings | SETTINGS) + f"<merge_tree>{_elements(MERGE_SETTINGS)}</merge_tree>"
        (self.config / "config.xml").write_text(f"<clickhouse>{elements}</clickhouse>\n")
        users.touch(mode=0o600)
        users.write_text(
            "<clickhouse><profiles><default><max_threads>2</max_threads></default></profiles>"
            f"<users>{self._users()}</users><quotas><default/></quotas></clickhouse>\n"
        )

    def _users(self) -> str:
        if self.user == "default":
            return _user("default", "", "<access_management>1</access_management>")
        # clickhouse-local itself logs in as `default` without a password, so that account may then do nothing else.
        grants = "".join(f"<query>GRANT {grant}</query>" for grant in ("SYSTEM LISTEN ON *.*", "SELECT ON system.numbers"))
        return _user(self.user, self.password, "<access_management>1</access_management>") + _user(
            "default", "", f"<grants>{grants}</grants>"
        )

    def run_engine(self, engine: Any) -> None:
        """Blocks for as long as the server lives."""
        try:
            result = engine.query(LISTEN_AND_PARK, "TabSeparated", path=str(self.data))
            if result is not None and result.has_error():
                self.failure = result.error_message()
        except Exception as error:
            self.failure = str(error)
        finally:
            self.ended.set()

    def ask(self, sql: str) -> str:
        """Answer of the server. Raises OSError."""
        headers = {"X-ClickHouse-User": self.user, "X-ClickHouse-Key": self.password}
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/", data=sql.encode(), headers=headers)
        with urllib.request.urlopen(request, timeout=5) as response:
            answer: bytes = response.read()
        return answer.decode().strip()

    def wait_until_ready(self) -> str | None:
        """Version once it answers, None if it does not."""
        deadline = time.monotonic() + START_S
        while not self.ended.is_set() and time.monotonic() < deadline:
            try:
                return self.ask("SELECT version()")
            except (urllib.error.URLError, OSError):
                self.ended.wait(0.05)
        return None

    def stop(self) -> None:
        """End the parked query, and with it the server."""
        try:
            self.ask(KILL_ALL)
        except OSError as error:
            print(f"ending the queries: {error}", file=sys.stderr)
        self.ended.wait(STOP_S)


def load_engine() -> Any:
    """The private module of the wheel; requirements pin its version, and the adapter's contract suite runs against this server.

    Importing it opens a connection for a moment, which reads ./config.xml as well: change folder only afterwards.
    """
    from chdb import _chdb

    engine: Any = _chdb
    engine.set_signal_handlers_enabled(False)
    return engine


def _elements(values: Mapping[str, object]) -> str:
    return "".join(f"<{name}>{escape(str(value))}</{name}>" for name, value in values.items())


def _user(name: str, password: str, rights: str) -> str:
    fixed = "<networks><ip>127.0.0.1</ip></networks><profile>default</profile><quota>default</quota>"
    return f"<{name}><password>{escape(password)}</password>{fixed}{rights}</{name}>"


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until a signal; exit status."""
    parser = argparse.ArgumentParser(description="A ClickHouse server over HTTP on 127.0.0.1.")
    parser.add_argument("--data", type=Path, required=True, help="folder of the data, made if missing")
    parser.add_argument("--port", type=int, default=8123)
    parser.add_argument("--user", default="default")
    parser.add_argument("--password", default="")
    parser.add_argument("--memory-bytes", type=int, default=1 << 30)
    parser.add_argument("--ready", type=Path, help="file that gets the version once the server answers")
    given = parser.parse_args(arguments)
    if given.user == "default" and given.password:
        parser.error("the user default has no password; choose another --user")
    server = Server(given.data, given.port, given.user, given.password, given.memory_bytes)
    server.write_config()
    signals = {signal.SIGTERM, signal.SIGINT}
    # Before the engine starts its threads, which inherit the mask.
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    engine = load_engine()
    os.chdir(server.config)
    threading.Thread(target=server.run_engine, args=(engine,), name="clickhouse", daemon=True).start()
    version = server.wait_until_ready()
    if version is None:
        print(f"the server did not start: {server.failure or 'no answer'}", file=sys.stderr, flush=True)
        os._exit(1)
    print(f"ready: ClickHouse {version} on http://127.0.0.1:{server.port}", flush=True)
    if given.ready:
        given.ready.write_text(version)
    while not server.ended.is_set():
        if signal.sigtimedwait(signals, 0.5) is not None:
            server.stop()
            # Regular interpreter shutdown would wait for the engine's threads.
            os._exit(0)
    print(f"the server ended: {server.failure}", file=sys.stderr, flush=True)
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
