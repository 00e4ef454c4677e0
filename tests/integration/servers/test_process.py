"""A server process: waited for, ended for certain, found Java."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from deploy.native.servers import ServerFailed
from deploy.native.servers.process import Process, find_java, free_ports
from deploy.native.servers.shared import ROOT

DEADLINE_S = 60.0
STARTER = """
import sys
from pathlib import Path
from deploy.native.servers.process import Process
print(Process(["sleep", "600"], Path(sys.argv[1])).pid, flush=True)
sys.stdin.read()
"""
STUBBORN = "import signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
pytestmark = pytest.mark.integration


def is_running(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


def test_a_server_does_not_survive_its_starter_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", STARTER, str(tmp_path / "log")]
    starter = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert starter.stdout is not None
    pid = int(starter.stdout.readline())
    assert is_running(pid)
    starter.kill()
    starter.communicate()
    deadline = time.monotonic() + DEADLINE_S
    while is_running(pid):
        assert time.monotonic() < deadline, "the server still runs"
        time.sleep(0.01)


def test_a_server_that_ends_while_starting_is_told_with_its_last_words(tmp_path: Path) -> None:
    process = Process([sys.executable, "-c", "import sys; sys.exit('no such setting')"], tmp_path / "log")
    with pytest.raises(ServerFailed, match=r"(?s)the thing ended with 1 while starting.*no such setting"):
        process.wait_until(lambda: False, DEADLINE_S, "the thing")


def test_a_server_that_is_never_ready_is_ended(tmp_path: Path) -> None:
    process = Process(["sleep", "600"], tmp_path / "log")
    with pytest.raises(ServerFailed, match="not ready"):
        process.wait_until(lambda: False, 0.1, "the thing")
    assert not process.alive


def test_a_server_that_ignores_the_request_to_end_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deploy.native.servers.process.STOP_S", 0.1)
    process = Process([sys.executable, "-c", STUBBORN], tmp_path / "log")
    process.wait_until(lambda: "up" in process.output(), DEADLINE_S, "the stubborn one")
    process.stop()
    assert not is_running(process.pid)


def test_a_keyboard_interrupt_of_the_starter_does_not_reach_the_server(tmp_path: Path) -> None:
    process = Process(["sleep", "600"], tmp_path / "log")
    assert os.getpgid(process.pid) != os.getpgid(0)
    process.stop()
    assert process.alive is False


def test_free_ports_differ() -> None:
    assert len(set(free_ports(10))) == 10


def test_java_is_found_where_the_environment_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for version in ("25.0.1", "17.0.2"):
        binary = tmp_path / version / "bin" / "java"
        binary.parent.mkdir(parents=True)
        binary.touch()
        (tmp_path / version / "release").write_text(f'JAVA_VERSION="{version}"\n')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "17.0.2"))
    monkeypatch.setenv("PATH", str(tmp_path / "25.0.1" / "bin"))
    assert find_java(17) == str(tmp_path / "17.0.2" / "bin" / "java")
    assert find_java(21) == str(tmp_path / "25.0.1" / "bin" / "java")
    with pytest.raises(ServerFailed, match="Java 99 or newer is needed"):
        find_java(99)
