"""The real Collector in front of an ingest, and what a test sends through it."""

import os
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx

from deploy.collector.build import build
from deploy.native.servers.process import Process, free_ports

CONFIG = Path(__file__).parents[3] / "deploy" / "collector" / "config"
Document = dict[str, Any]


class Collector:
    """One Collector of a node; it keeps its data and its ports over restarts."""

    def __init__(
        self,
        folder: Path,
        ingest: str,
        key: str,
        configs: Sequence[str] = ("node.yaml",),
        node: str = "node-a",
        path: str = "",
        **settings: str,
    ) -> None:
        """`configs`: files of deploy/collector/config. `path`: where programs are looked for first. `settings`: without COLLECTOR_."""
        folder.mkdir(parents=True, exist_ok=True)
        key_file = folder / "key"
        key_file.write_text(key)
        http, grpc, health, metrics = free_ports(4)
        self._folder, self._configs, self._health = folder, configs, health
        self._environ = {
            "COLLECTOR_INGEST_URL": ingest,
            "COLLECTOR_API_KEY_FILE": str(key_file),
            "COLLECTOR_DATA": str(folder / "data"),
            "COLLECTOR_OTLP_HTTP": f"127.0.0.1:{http}",
            "COLLECTOR_OTLP_GRPC": f"127.0.0.1:{grpc}",
            "COLLECTOR_HEALTH": f"127.0.0.1:{health}",
            "COLLECTOR_METRICS_PORT": str(metrics),
            "K8S_NODE_NAME": node,
            "PATH": f"{path}:{os.environ['PATH']}",
            **{f"COLLECTOR_{name}": value for name, value in settings.items()},
        }
        self.otlp_url = f"http://127.0.0.1:{http}"
        self.grpc_address = f"127.0.0.1:{grpc}"
        self.metrics_url = f"http://127.0.0.1:{metrics}/metrics"
        self._process: Process | None = None

    def start(self) -> None:
        """Return when it answers."""
        self._process = Process(self.command(), self._folder / "collector.log")
        self._process.wait_until(self._healthy, 60, "the Collector")

    def command(self, *words: str) -> list[str]:
        """How it is called."""
        variables = (f"{name}={value}" for name, value in self._environ.items())
        return ["/usr/bin/env", *variables, str(build()), *words, *(f"--config={CONFIG / name}" for name in self._configs)]

    def _healthy(self) -> bool:
        try:
            return httpx.get(f"http://127.0.0.1:{self._health}/", timeout=2).status_code == 200
        except httpx.HTTPError:
            return False

    def watches(self) -> bool:
        """Whether it has found the file to follow; what stood there before is not sent."""
        return "Started watching file" in (self._folder / "collector.log").read_text()

    def kill(self) -> None:
        """SIGKILL."""
        assert self._process is not None
        self._process.kill()

    def stop(self) -> None:
        """SIGTERM."""
        if self._process is not None:
            self._process.stop()

    def send(self, signal: str, request: Document) -> None:
        """Send an OTLP request; it must be taken whole."""
        reply = httpx.post(f"{self.otlp_url}/v1/{signal}", json=request, timeout=20)
        assert reply.status_code == 200, reply.text
        assert not reply.json().get("partialSuccess"), reply.text

    def __enter__(self) -> "Collector":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def attributes(values: dict[str, str | int]) -> list[Document]:
    """OTLP attributes."""
    return [
        {"key": key, "value": {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}}
        for key, value in values.items()
    ]


def process(run: str, rank: int, node: str = "node-a", size: int = 2) -> dict[str, str | int]:
    """Resource of one training process."""
    return {
        "service.instance.id": str(uuid.uuid5(uuid.NAMESPACE_OID, f"{run}/{rank}")),
        "service.name": "train",
        "train.run.id": run,
        "train.rank": rank,
        "train.world_size": size,
        "host.name": node,
        "process.pid": 4000 + rank,
    }


def record(body: str, severity: int = 17, event: str = "", **values: str | int) -> Document:
    """A log record of now."""
    made: Document = {"timeUnixNano": str(time.time_ns()), "severityNumber": severity, "body": {"stringValue": body}}
    return made | ({"eventName": event} if event else {}) | {"attributes": attributes(values)}


def logs(resource: dict[str, str | int], *records: Document) -> Document:
    """A request of log records of one process."""
    return {"resourceLogs": [{"resource": {"attributes": attributes(resource)}, "scopeLogs": [{"logRecords": list(records)}]}]}


def gauge(resource: dict[str, str | int], name: str, values: Sequence[tuple[int, float]]) -> Document:
    """A request with one gauge: (time in ns, value)."""
    points = [{"timeUnixNano": str(time_ns), "asDouble": value} for time_ns, value in values]
    metric = {"name": name, "gauge": {"dataPoints": points}}
    return {"resourceMetrics": [{"resource": {"attributes": attributes(resource)}, "scopeMetrics": [{"metrics": [metric]}]}]}


def span(trace: int, number: int, *, error: bool = False, exception: str = "", lasted_s: float = 0) -> Document:
    """A span that ends now."""
    now_ns = time.time_ns()
    now = str(now_ns)
    made: Document = {
        # Ids as random as real ones: samplers read their bits.
        "traceId": uuid.uuid5(uuid.NAMESPACE_OID, str(trace)).hex,
        "spanId": f"{trace * 100 + number:016x}",
        "name": f"span-{trace}-{number}",
        "startTimeUnixNano": str(now_ns - int(lasted_s * 1e9)),
        "endTimeUnixNano": now,
        "status": {"code": 2 if error else 0},
    }
    if exception:
        values: dict[str, str | int] = {"exception.type": "ValueError", "exception.message": exception}
        made["events"] = [{"timeUnixNano": now, "name": "exception", "attributes": attributes(values)}]
    return made


def spans(resource: dict[str, str | int], *made: Document) -> Document:
    """A request of spans of one process."""
    return {"resourceSpans": [{"resource": {"attributes": attributes(resource)}, "scopeSpans": [{"spans": list(made)}]}]}


def this_environment() -> dict[str, str]:
    """The environment without settings of firstfault."""
    return {name: value for name, value in os.environ.items() if not name.startswith("FIRSTFAULT_") or name == "FIRSTFAULT_CACHE"}
