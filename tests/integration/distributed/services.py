"""Services of the distributed deployment as processes that a test starts, kills and starts again."""

import os
import queue
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx
from elasticsearch import ApiError
from prometheus_client.parser import text_string_to_metric_families

from firstfault_server.adapters import elasticsearch
from firstfault_server.adapters.clickhouse import server_engine
from firstfault_server.adapters.clickhouse.tables import migrate
from firstfault_server.adapters.kafka import Connection
from tests.integration.distributed.installation import make_topics, new_prefix, wait_for

START_S = 60.0
STOP_S = 15.0
FREE = "127.0.0.1:0"


class Installation:
    """Topics, indices and a database of a test, and the settings of services that use them."""

    def __init__(self, kafka: str, elasticsearch_url: str, clickhouse: str) -> None:
        self.prefix = new_prefix()
        self.kafka: Connection = make_topics(kafka, self.prefix)
        self.elasticsearch = elasticsearch.Connection(url=elasticsearch_url, prefix=self.prefix)
        elasticsearch.ensure_templates(self.elasticsearch, replicas=0)
        self._engine = server_engine(clickhouse, clients=1)
        migrate(self._engine, self.prefix)
        self.settings = {
            "FIRSTFAULT_KAFKA_BOOTSTRAP": kafka,
            "FIRSTFAULT_KAFKA_PREFIX": self.prefix,
            "FIRSTFAULT_ELASTICSEARCH_URL": elasticsearch_url,
            "FIRSTFAULT_ELASTICSEARCH_PREFIX": self.prefix,
            "FIRSTFAULT_CLICKHOUSE_URL": clickhouse,
            "FIRSTFAULT_CLICKHOUSE_DATABASE": self.prefix,
            "FIRSTFAULT_CURSOR_SECRET": "shared by replicas",
            "FIRSTFAULT_LOG_LEVEL": "info",
            **{
                f"FIRSTFAULT_{name}": FREE for name in ("API", "OTLP_HTTP", "OTLP_GRPC", "INGEST_HEALTH", "WRITER_HEALTH", "ALERTER_HEALTH")
            },
        }

    def ask(self, sql: str) -> str:
        """First value of the answer of ClickHouse; `{database}` stands for the installation's."""
        return str(self._engine.rows(sql.replace("{database}", self.prefix))[0][0])

    def stored_events(self) -> int:
        """How many events can be searched for now."""
        alias = f"{self.prefix}-events"
        with self.elasticsearch.client() as client:
            try:
                client.indices.refresh(index=alias, ignore_unavailable=True)
                count: int = client.count(index=alias, ignore_unavailable=True)["count"]
            except ApiError as error:
                # An index that was made a moment ago.
                assert error.status_code == 503
                return 0
        return count

    def environ(self, **changes: str) -> dict[str, str]:
        """Of a process that belongs to this installation."""
        return {**clean_environment(), **self.settings, **changes}

    def close(self) -> None:
        """Remove indices and database."""
        self._engine.command(f"DROP DATABASE IF EXISTS {self.prefix}")
        self._engine.close()
        with self.elasticsearch.client() as client:
            indices = [*client.indices.get(index=f"{self.prefix}-*")]
            if indices:
                client.indices.delete(index=indices)


def clean_environment() -> dict[str, str]:
    """This process's environment without anybody's own settings."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("FIRSTFAULT_", "OTEL_"))} | {"HOME": "/nonexistent"}


class Service:
    """`firstfault serve KIND`; after a kill it comes back under the same addresses."""

    def __init__(self, kind: str, environ: Mapping[str, str], folder: Path, python: Path = Path(sys.executable)) -> None:
        self._python = python
        self.kind, self._environ, self._errors = kind, dict(environ), folder / f"{kind}.err"
        self.addresses: dict[str, str] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        """Return when it is ready; its output is checked to be the ready line."""
        command = [str(self._python), "-m", "firstfault_server", "serve", self.kind]
        environ = self._environ | {_SETTINGS[name](self.kind): address for name, address in self.addresses.items()}
        with self._errors.open("ab") as errors:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, env=environ)
        line = self._first_line()
        match = re.fullmatch(r"ready((?: [a-z-]+=[0-9.]+:[0-9]+)+)\n", line)
        if match is None:
            self.kill()
            raise AssertionError(f"serve {self.kind} said {line!r}:\n{self.errors()}")
        self.addresses = dict(part.split("=") for part in match.group(1).split())

    def _first_line(self) -> str:
        lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        assert self._process is not None and self._process.stdout is not None
        read = self._process.stdout.readline
        threading.Thread(target=lambda: lines.put(read()), daemon=True).start()
        try:
            return lines.get(timeout=START_S).decode()
        except queue.Empty:
            return ""

    def errors(self) -> str:
        """The end of what it has written to stderr."""
        return self._errors.read_text("utf-8", "replace")[-4000:]

    def url(self, name: str) -> str:
        """Base address of one of its ports."""
        return f"http://{self.addresses[name]}"

    @property
    def health(self) -> str:
        """Base address of health and metrics."""
        return self.url("api" if self.kind == "api" else "health")

    def problems(self) -> dict[str, str]:
        """What it says does not work."""
        return self.state()[1]

    def state(self) -> tuple[str, dict[str, str]]:
        """What it says of itself, and what it says does not work; only with `not ready` requests go elsewhere."""
        answer = httpx.get(f"{self.health}/readyz", timeout=30, trust_env=False)
        found = answer.json()
        assert answer.status_code == (503 if found["status"] == "not ready" else 200)
        problems: dict[str, str] = found.get("problems") or {}
        assert (found["status"] == "ok") == (not problems)
        return found["status"], problems

    def figure(self, name: str, **labels: str) -> float:
        """A sample of its metrics, 0 when there is none."""
        text = httpx.get(f"{self.health}/metrics", timeout=30, trust_env=False).text
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name == name and sample.labels == labels:
                    return sample.value
        return 0.0

    @property
    def running(self) -> bool:
        """Whether it was started and not ended yet."""
        return self._process is not None and self._process.poll() is None

    def wait_until_ready(self) -> None:
        """Wait until nothing is amiss."""
        wait_for(lambda: not self.problems(), f"serve {self.kind} is ready")

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        assert self._process is not None
        self._process.kill()
        self._end()

    def stop(self) -> int:
        """SIGTERM; returns the exit status. AssertionError when it takes too long."""
        assert self._process is not None
        if self._process.poll() is None:
            asked = time.monotonic()
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(60)
            except subprocess.TimeoutExpired:
                self.kill()
            assert time.monotonic() - asked < STOP_S, self.errors()
        return self._end()

    def _end(self) -> int:
        assert self._process is not None and self._process.stdout is not None
        status = self._process.wait()
        self._process.stdout.close()
        return status

    def __enter__(self) -> "Service":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()


_SETTINGS: dict[str, Any] = {
    "api": lambda _: "FIRSTFAULT_API",
    "otlp-http": lambda _: "FIRSTFAULT_OTLP_HTTP",
    "otlp-grpc": lambda _: "FIRSTFAULT_OTLP_GRPC",
    "health": lambda kind: f"FIRSTFAULT_{kind.upper()}_HEALTH",
}


class Wire:
    """A TCP connection to a server that can be cut and joined again: a stand-in for an outage of the server."""

    def __init__(self, target: str) -> None:
        """`target` is HOST:PORT."""
        host, port = target.rsplit(":", 1)
        self._target = (host, int(port))
        self._joined = threading.Event()
        self._joined.set()
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """From now on connections end at once."""
        self._joined.clear()
        with self._lock:
            for each in self._open:
                _shut(each)

    def join(self) -> None:
        """Let connections through again."""
        self._joined.set()

    def close(self) -> None:
        """End everything."""
        self.cut()
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if not self._joined.is_set():
                client.close()
                continue
            server = socket.create_connection(self._target)
            with self._lock:
                self._open |= {client, server}
            for source, sink in ((client, server), (server, client)):
                threading.Thread(target=self._pass, args=(source, sink), daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(1 << 16):
                sink.sendall(data)
        except OSError:
            # The other side went away: so does this one.
            pass
        finally:
            for each in (source, sink):
                _shut(each)


def _shut(each: socket.socket) -> None:
    try:
        each.shutdown(socket.SHUT_RDWR)
    except OSError:
        # It is shut already.
        return


@contextmanager
def wire(target: str) -> Iterator[Wire]:
    """A wire for the length of the block."""
    made = Wire(target)
    try:
        yield made
    finally:
        made.close()
