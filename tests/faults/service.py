"""A real `firstfault up` for the fault jobs, and a receiver for the pages it sends."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TypeVar

import httpx

from firstfault import conventions as names

Document = dict[str, Any]
T = TypeVar("T")
POLL_S = 0.1
START_WITHIN_S = 90.0
STOP_WITHIN_S = 15.0


def until(wanted: Callable[[], T | None], within_s: float, what: str, explain: Callable[[], str] = str) -> T:
    """The first answer that is true; fails with `what` and an explanation after `within_s`."""
    deadline = time.monotonic() + within_s
    while True:
        answer = wanted()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {within_s:g} s\n{explain()}")
        time.sleep(POLL_S)


class Pages:
    """A webhook receiver that keeps every message."""

    def __init__(self) -> None:
        self._messages: list[tuple[str, Document]] = []
        pages = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                pages._messages.append((self.headers["webhook-id"], json.loads(body)))
                self.send_response(204)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                """Nothing: a test's output is its verdict."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, name="pages", daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}/"

    def of(self, incident: str) -> dict[str, Document]:
        """Messages about an incident by webhook-id, in the order in which they first came."""
        return {key: message for key, message in self._messages if message["id"] == incident}

    def close(self) -> None:
        """Stop receiving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class Service:
    """One running service: where it listens, what it knows."""

    def __init__(self, process: subprocess.Popen[str] | None, api: str, otlp_http: str, errors: Path, pages: Pages) -> None:
        self.process = process
        self.api_url = f"http://{api}"
        self.endpoint = f"http://{otlp_http}"
        self.errors = errors
        self.pages = pages
        self.counted: dict[str, int] = {}
        """Incidents a run has had when its test ended; none may come after."""
        self._client = httpx.Client(base_url=self.api_url, timeout=10)

    def get(self, path: str, **parameters: str) -> Document:
        """A document of the API; fails on any other status than 200."""
        reply = self._client.get(path, params=parameters)
        assert reply.status_code == 200, f"GET {path} {parameters}: {reply.status_code} {reply.text[:500]}"
        document: Document = reply.json()
        return document

    def incidents(self, run: str) -> list[Document]:
        """Incidents of a run, oldest first."""
        items: list[Document] = self.get("/v1/incidents", q=f"run:{run}")["items"]
        return sorted(items, key=lambda incident: (incident["opened_at"], incident["id"]))

    def run(self, run: str) -> Document | None:
        """The run, None while it is not known yet."""
        reply = self._client.get(f"/v1/runs/{run}")
        if reply.status_code == 404:
            return None
        assert reply.status_code == 200, reply.text
        document: Document = reply.json()
        return document

    def ranks(self, run: str) -> dict[int, Document]:
        """Where each rank of a run stands."""
        return {item["rank"]: item for item in self.get(f"/v1/runs/{run}/ranks")["items"] if item["rank"] is not None}

    def deliveries(self, incident: str) -> list[Document]:
        """Every try to deliver a message about an incident."""
        items: list[Document] = self.get("/v1/deliveries", q=f"incident:{incident}")["items"]
        return items

    def report_oom_kill(self, node: str, pid: int) -> None:
        """Say, as a node agent does, that the kernel killed a process for memory."""
        text = f"Memory cgroup out of memory: Killed process {pid} (python) total-vm:91234kB, anon-rss:81234kB"
        attributes = [
            {"key": names.VICTIM_PID, "value": {"intValue": str(pid)}},
            {"key": names.VICTIM_NAME, "value": {"stringValue": "python"}},
        ]
        record = {
            "timeUnixNano": str(time.time_ns()),
            "eventName": names.OOM_KILL,
            "severityNumber": 17,
            "body": {"stringValue": text},
            "attributes": attributes,
        }
        resource = {
            names.HOST: node,
            names.ROLE: "node_agent",
            names.INSTANCE: f"agent-{node}",
        }
        request = {
            "resourceLogs": [
                {
                    "resource": {"attributes": [{"key": key, "value": {"stringValue": value}} for key, value in resource.items()]},
                    "scopeLogs": [{"logRecords": [record]}],
                }
            ]
        }
        reply = httpx.post(f"{self.endpoint}/v1/logs", json=request, timeout=10)
        assert reply.status_code == 200, reply.text
        assert "partialSuccess" not in reply.json(), reply.text

    def add_destination(self) -> None:
        """Send pages to `pages`."""
        body = {"name": "pages", "url": self.pages.url, "where": "is:page", "allow_private": True}
        reply = self._client.post("/v1/destinations", json=body)
        assert reply.status_code == 201, reply.text

    def close(self) -> None:
        """Close connections to it."""
        self._client.close()


@contextmanager
def running(folder: Path, thresholds: Mapping[str, float]) -> Iterator[Service]:
    """A service on free ports with its data in `folder`; `thresholds` override detection's own."""
    folder.mkdir(parents=True, exist_ok=True)
    errors = folder / "service.err"
    command = [str(Path(sys.executable).with_name("firstfault")), "up", "--data", str(folder / "data")]
    for name in ("api", "otlp-http", "otlp-grpc"):
        command += [f"--{name}", "127.0.0.1:0"]
    env = os.environ | {"FIRSTFAULT_THRESHOLDS": json.dumps(dict(thresholds))}
    with errors.open("w") as stderr:
        process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr, text=True)
    pages = Pages()
    try:
        ready = _ready(process, errors)
        service = Service(process, ready["api"], ready["otlp-http"], errors, pages)
        service.add_destination()
        try:
            yield service
        finally:
            service.close()
        assert process.poll() is None, f"the service ended by itself:\n{errors.read_text()[-3000:]}"
        process.send_signal(signal.SIGTERM)
        assert process.wait(STOP_WITHIN_S + 5) == 0, errors.read_text()[-3000:]
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
        pages.close()


def _ready(process: subprocess.Popen[str], errors: Path) -> dict[str, str]:
    assert process.stdout is not None
    timer = threading.Timer(START_WITHIN_S, process.kill)
    timer.start()
    line = process.stdout.readline()
    timer.cancel()
    word, *pairs = line.split()
    assert word == "ready", f"no ready line but {line!r}:\n{errors.read_text()[-3000:]}"
    return dict(pair.split("=", 1) for pair in pairs)
