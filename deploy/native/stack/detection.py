"""The parts of a stack's Flink, each run by itself, and the job that must be running on it."""

import os
import time
from pathlib import Path
from typing import Any, Final

from deploy.native.servers.flink import Flink
from deploy.native.stack.layout import Layout

SESSION_MS: Final = 5000
"""For so long a dead JobManager leads; the default would be a minute."""
ALIVE: Final = frozenset({"INITIALIZING", "CREATED", "RUNNING", "FAILING", "RESTARTING", "RECONCILING", "SUSPENDED"})
WITHOUT_JOB_S: Final = 30.0
"""A JobManager that comes back needs a while until it knows its job again."""
ASK_S: Final = 1.0
PASSED_ON: Final = {"FIRSTFAULT_THRESHOLDS": "--thresholds", "FIRSTFAULT_FLINK_PARALLELISM": "--flink-parallelism"}
"""Settings of the stack's environment that are the job's."""


def cluster(layout: Layout) -> Flink:
    """The stack's Flink. Each part has its own object in its own process; they meet through the folder and the ports."""
    return Flink(
        layout.folder / "flink",
        configuration={
            "high-availability.type": "zookeeper",
            "high-availability.zookeeper.quorum": layout.at("zookeeper"),
            "high-availability.storageDir": f"file://{layout.folder / 'flink' / 'ha'}",
            "high-availability.cluster-id": "/firstfault",
            "high-availability.jobmanager.port": layout.ports["flink_rpc"],
            "high-availability.zookeeper.client.session-timeout": SESSION_MS,
            "high-availability.zookeeper.client.connection-timeout": SESSION_MS,
            "metrics.reporters": "prom",
            "metrics.reporter.prom.factory.class": "org.apache.flink.metrics.prometheus.PrometheusReporterFactory",
            "metrics.reporter.prom.port": layout.ports["flink_metrics"],
        },
        ports=(layout.ports["flink"], layout.ports["flink_rpc"]),
    )


class JobManager:
    """The one JobManager."""

    def __init__(self, layout: Layout) -> None:
        self._flink = cluster(layout)

    @property
    def pid(self) -> int | None:
        """Process id while it runs."""
        return self._flink.jobmanager_pid

    def start(self) -> None:
        """Return when it answers. Raises ServerFailed."""
        self._flink.prepare()
        self._flink.start_jobmanager()

    def stop(self) -> None:
        """End it."""
        self._flink.stop()


class TaskManager:
    """The one TaskManager."""

    def __init__(self, layout: Layout) -> None:
        self._flink = cluster(layout)

    @property
    def pid(self) -> int | None:
        """Process id while it runs."""
        return next(iter(self._flink.pids), None)

    def start(self) -> None:
        """Return when it is registered. Raises ServerFailed."""
        self._flink.prepare()
        self._flink.start_taskmanager()

    def stop(self) -> None:
        """End it."""
        self._flink.stop()


class Detection:
    """The job. A JobManager that lost it is given it again, from its newest checkpoint."""

    def __init__(self, layout: Layout) -> None:
        self._layout, self._flink = layout, cluster(layout)
        self._asked, self._seen = 0.0, time.monotonic()

    @property
    def pid(self) -> int | None:
        """This process, until a JobManager has been without the job for a while."""
        now = time.monotonic()
        if now >= self._asked + ASK_S:
            self._asked = now
            jobs = self._jobs()
            if jobs is None or any(state in ALIVE for state in jobs.values()):
                self._seen = now
        return os.getpid() if now < self._seen + WITHOUT_JOB_S else None

    def start(self) -> None:
        """Return when the job runs. Raises ServerFailed."""
        self._flink.prepare()
        jobs = self._jobs() or {}
        if any(state in ALIVE for state in jobs.values()):
            return
        settings = [word for name, option in PASSED_ON.items() if name in os.environ for word in (option, os.environ[name])]
        kafka = ["--kafka-bootstrap", self._layout.at("kafka")]
        self._flink.submit(*kafka, *settings, state=newest_checkpoint(self._layout.folder / "flink" / "checkpoints"))

    def stop(self) -> None:
        """The job goes on for as long as its cluster does."""

    def _jobs(self) -> dict[str, str] | None:
        found: Any = self._flink.rest.ask("/jobs")
        return None if found is None else {job["id"]: job["status"] for job in found["jobs"]}


def newest_checkpoint(folder: Path) -> str | None:
    """The newest checkpoint of any job, None before the first."""
    found = sorted(folder.glob("*/chk-*/_metadata"), key=lambda path: path.stat().st_mtime)
    return f"file://{found[-1].parent}" if found else None
