"""What the job of a stack is told, and how many TaskManagers it gets."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from deploy.native.servers.process import ServerFailed
from deploy.native.stack import detection, layout
from firstfault_server.detect.flink.plan import read_plan


class Cluster:
    """In place of Flink: remembers what it was told."""

    def __init__(self) -> None:
        self.jobs: list[tuple[tuple[str, ...], Mapping[str, str]]] = []
        self.started: list[bool] = []
        self.ended = 0
        self.rest = self

    def ask(self, path: str) -> dict[str, Any]:
        """No jobs yet."""
        assert path == "/jobs"
        return {"jobs": []}

    def prepare(self) -> None:
        """Nothing."""

    def submit(self, *arguments: str, state: str | None, environment: Mapping[str, str]) -> str:
        """A job."""
        assert state is None
        self.jobs.append((arguments, environment))
        return "job"

    def start_taskmanager(self, *, wait: bool = True) -> None:
        """One more."""
        self.started.append(wait)

    @property
    def pids(self) -> list[int]:
        """Those that run."""
        return [100 + number for number in range(len(self.started) - self.ended)]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    made = Cluster()
    monkeypatch.setattr(detection, "cluster", lambda _: made)
    return made


def test_the_job_is_told_what_the_services_are_told(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Every setting of the job can come from the caller; where its servers are is the stack's to say."""
    stack = layout.make(tmp_path / "stack")
    own = {
        "FIRSTFAULT_KAFKA_PREFIX": "trial",
        "FIRSTFAULT_KAFKA_SECURITY": '{"sasl.username": "me"}',
        "FIRSTFAULT_THRESHOLDS": '{"silence_s": 20}',
        "FIRSTFAULT_FLINK_PARALLELISM": "2",
        "FIRSTFAULT_FLINK_GUARANTEE": "at-least-once",
        "FIRSTFAULT_FLINK_CHECKPOINT_S": "5",
        "FIRSTFAULT_FLINK_BACKEND": "rocksdb",
        "FIRSTFAULT_FLINK_START": "latest",
        "FIRSTFAULT_FLINK_CACHED": "10",
        "FIRSTFAULT_KAFKA_BOOTSTRAP": "elsewhere:9092",
    }
    for name, value in own.items():
        monkeypatch.setenv(name, value)
    detection.Detection(stack).start()
    ((arguments, environment),) = cluster.jobs
    assert arguments == (), "arguments are shown by Flink's pages"
    told, wanted = read_plan([], environment), read_plan([], own | {"FIRSTFAULT_KAFKA_BOOTSTRAP": stack.at("kafka")})
    assert told == wanted
    services = stack.environment(own)
    assert {name: services[name] for name in own} == {name: environment[name] for name in own}


def test_there_is_a_taskmanager_for_each_instance(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """And all are started again when one has ended."""
    taskmanagers = detection.TaskManager(layout.make(tmp_path / "stack"))
    monkeypatch.setenv("FIRSTFAULT_FLINK_PARALLELISM", "3")
    taskmanagers.start()
    assert cluster.started == [False, False, True], "they start side by side"
    assert taskmanagers.pid == 100
    cluster.ended = 1
    assert taskmanagers.pid is None


def test_a_parallelism_that_cannot_be_is_named(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FIRSTFAULT_FLINK_PARALLELISM", "two")
    with pytest.raises(ServerFailed, match="FIRSTFAULT_FLINK_PARALLELISM=two"):
        detection.TaskManager(layout.make(tmp_path / "stack")).start()
    assert cluster.started == []
