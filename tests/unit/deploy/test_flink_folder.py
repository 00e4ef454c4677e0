"""Everything that a Flink of this machine starts keeps its temporary files in the cluster's own folder."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from deploy.native.servers import flink
from deploy.native.servers.flink_rest import Rest

Started = tuple[Sequence[str], Mapping[str, str]]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Started]:
    """Command and environment of every program that a cluster would start."""
    programs: list[Started] = []
    environment = tmp_path / "environment"
    (environment / "lib" / "python3.11" / "site-packages" / "pyflink").mkdir(parents=True)

    def process(command: Sequence[str], log: Path, variables: Mapping[str, str]) -> None:
        programs.append((command, variables))

    def run(command: Sequence[str], *, env: Mapping[str, str], **_: Any) -> subprocess.CompletedProcess[str]:
        programs.append((command, env))
        return subprocess.CompletedProcess(command, 0, "JOB 1\n", "")

    monkeypatch.setattr(flink, "ensure", lambda: environment)
    monkeypatch.setattr(flink, "find_java", lambda _: "java")
    monkeypatch.setattr(flink, "Process", process)
    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(Rest, "wait_running", lambda *_: None)
    return programs


def test_no_program_of_it_uses_the_temporary_folder_of_the_system(started: list[Started], tmp_path: Path) -> None:
    folder = tmp_path / "flink"
    cluster = flink.Flink(folder, ports=(1, 2))
    cluster.prepare()
    cluster.start_jobmanager(wait=False)
    cluster.start_taskmanager(wait=False)
    cluster.submit(environment={"FIRSTFAULT_KAFKA_PREFIX": "trial"})
    assert [variables.get("FIRSTFAULT_KAFKA_PREFIX") for _, variables in started] == [None, None, "trial"]
    for command, variables in started:
        assert f"-Djava.io.tmpdir={folder / 'tmp'}" in command
        assert "-XX:-UsePerfData" in command
        assert variables["TMPDIR"] == str(folder / "tmp")
    settings = dict(line.split(": ", 1) for line in (folder / "conf" / "config.yaml").read_text().splitlines())
    assert settings["io.tmp.dirs"] == str(folder / "tmp")
    assert (folder / "tmp").is_dir()
