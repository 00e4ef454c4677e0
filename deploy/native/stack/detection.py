"""The parts of a stack's Flink, each run by itself, and the job that must be running on it."""

import os
import time
from pathlib import Path
from typing import Any, Final

from deploy.native.servers.flink import Flink
from deploy.native.servers.process import ServerFailed
from deploy.native.stack.layout import Layout

SESSION_MS: Final = 5000
"""For so long a dead JobManager leads; the default would be a minute."""
ALIVE: Final = frozenset({"INITIALIZING", "CREATED", "RUNNING", "FAILING", "RESTARTING", "RECONCILING", "SUSPENDED"})
WITHOUT_JOB_S: Final = 30.0
"""A JobManager that comes back needs a while until it knows its job again."""
ASK_S: Final = 1.0
SETTING: Final = "FIRSTFAULT_"
PARALLELISM: Final = f"{SETTING}FLINK_PARALLELISM"


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
    """As many TaskManagers, of one slot each, as the job has instances of a stage."""

    def __init__(self, layout: Layout) -> None:
        self._flink, self._wanted = cluster(layout), 1

    @property
    def pid(self) -> int | None:
        """Process id of the first while all run: when one has ended, all are to be started again. The others end with this process."""
        pids = self._flink.pids
        return pids[0] if len(pids) == self._wanted else None

    def start(self) -> None:
        """Return when all are registered. Raises ServerFailed."""
        said = os.environ.get(PARALLELISM) or "1"
        if not said.isdecimal() or int(said) < 1:
            raise ServerFailed(f"{PARALLELISM}={said}: set it to a whole number from 1 up")
        self._wanted = int(said)
        self._flink.prepare()
        for number in range(self._wanted):
            self._flink.start_taskmanager(wait=number == self._wanted - 1)

    def stop(self) -> None:
        """End them."""
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
        # What the services get: the job takes its own out of it. Not as arguments, which Flink's pages show.
        settings = {name: value for name, value in os.environ.items() if name.startswith(SETTING)} | self._layout.settings()
        self._flink.submit(state=newest_checkpoint(self._layout.folder / "flink" / "checkpoints"), environment=settings)

    def stop(self) -> None:
        """The job goes on for as long as its cluster does."""

    def _jobs(self) -> dict[str, str] | None:
        found: Any = self._flink.rest.ask("/jobs")
        return None if found is None else {job["id"]: job["status"] for job in found["jobs"]}


def newest_checkpoint(folder: Path) -> str | None:
    """The newest checkpoint of any job, None before the first."""
    found = sorted(folder.glob("*/chk-*/_metadata"), key=lambda path: path.stat().st_mtime)
    return f"file://{found[-1].parent}" if found else None
