"""Noticing the end of a process and its status: by pidfd, and by the process table where there is none."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from firstfault.sidecar.death import Status, WatchedProcess
from firstfault.sidecar.kernel import KernelEvidence
from firstfault.sidecar.launched import LaunchDir

POLLED, PIDFD = "process table", "pidfd"


@pytest.fixture(params=[POLLED, PIDFD])
def kind(request: pytest.FixtureRequest) -> str:
    """Which way of watching."""
    return str(request.param)


@pytest.fixture
def child() -> Iterator["subprocess.Popen[bytes]"]:
    """A child that does nothing."""
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", "import sys; print(flush=True); sys.exit(len(sys.stdin.read()))"], stdin=-1, stdout=-1
    )
    assert process.stdout is not None
    process.stdout.readline()
    yield process
    process.kill()
    process.communicate()


def watch(process: "subprocess.Popen[bytes]", kind: str) -> WatchedProcess:
    """Watch a child in one of the two ways."""
    return WatchedProcess(process.pid, os.pidfd_open(process.pid) if kind == PIDFD else -1)


def test_a_living_process_has_a_state_and_does_not_end(child: "subprocess.Popen[bytes]", kind: str) -> None:
    watched = watch(child, kind)
    assert not watched.wait(0.01)
    assert watched.state() in ("S", "R", "D")
    assert watched.status() is None


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
def test_the_status_of_a_zombie_is_its_signal(child: "subprocess.Popen[bytes]", kind: str, number: signal.Signals) -> None:
    watched = watch(child, kind)
    os.kill(child.pid, number)
    assert watched.wait(10.0)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert watched.status() == Status(signal=number)


@pytest.mark.parametrize("code", [0, 5])
def test_the_status_of_a_zombie_is_its_code(child: "subprocess.Popen[bytes]", kind: str, code: int) -> None:
    watched = watch(child, kind)
    assert child.stdin is not None
    child.stdin.write(b"x" * code)
    child.stdin.close()
    child.stdin = None
    assert watched.wait(10.0)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert watched.status() == Status(code=code)


def test_a_collected_process_is_gone_and_never_given_a_status_it_did_not_have(child: "subprocess.Popen[bytes]", kind: str) -> None:
    watched = watch(child, kind)
    child.kill()
    child.wait()
    assert watched.wait(10.0)
    assert watched.state() is None
    # Linux 6.15 and newer still know it through the pidfd; elsewhere it is not known, which is no status either.
    assert watched.status() in ((None, Status(signal=signal.SIGKILL)) if kind == PIDFD else (None,))


def _stat(pid: int, state: str, start_code: int, start_stack: int) -> bytes:
    """A line of the process table; the name is a hostile one."""
    fields = ["0"] * 52
    fields[2], fields[25], fields[27] = state, str(start_code), str(start_stack)
    return f"{pid} (a) Z (b) {' '.join(fields[2:])}\n".encode()


@pytest.mark.parametrize(
    ("before", "now", "replaced"),
    [
        ((4096, 9000), ("R", 4096, 9000), False),
        ((4096, 9000), ("R", 8192, 7000), True),
        ((4096, 9000), ("R", 4096, 7000), True),
        ((4096, 9000), ("R", 0, 0), False),  # Its memory is gone, its end not yet to be seen.
        ((4096, 9000), ("R", 1, 1), False),  # It may not be looked into any more.
        ((1, 0), ("R", 4096, 9000), False),
    ],
)
def test_another_program_is_told_from_a_process_about_to_end(
    monkeypatch: pytest.MonkeyPatch, before: tuple[int, int], now: tuple[str, int, int], replaced: bool
) -> None:
    monkeypatch.setattr(Path, "read_bytes", lambda path: _stat(42, *now))
    watched = WatchedProcess(42, -1, _stat(42, "R", *before))
    assert watched.replaced() is replaced
    assert watched.state() == now[0]


def test_status_of_wait() -> None:
    assert Status.of_wait(3 << 8) == Status(code=3)
    assert Status.of_wait(signal.SIGKILL) == Status(signal=signal.SIGKILL)
    assert Status.of_wait(signal.SIGSEGV | 0x80, "launcher") == Status(signal=signal.SIGSEGV, source="launcher")


def test_the_launch_folder_carries_a_status_and_goes_with_the_last_sidecar(tmp_path: Path) -> None:
    folder = tmp_path / "launch"
    folder.mkdir()
    launched = LaunchDir(str(folder))
    launched.mark(7)
    launched.mark(8)
    assert launched.read(7) is None
    launched.write(7, signal.SIGKILL)
    assert launched.read(7) == Status(signal=signal.SIGKILL, source="launcher")
    launched.unmark(7)
    launched.finish()
    assert folder.exists()
    launched.unmark(8)
    assert not folder.exists()
    launched.mark(9)
    launched.unmark(9)
    launched.finish()
    assert launched.read(9) is None


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A process table, a cgroup of version 2 and a kernel log, all of files."""
    (tmp_path / "proc" / "42").mkdir(parents=True)
    (tmp_path / "proc" / "42" / "cgroup").write_text("0::/job/step\n")
    (tmp_path / "cgroup" / "job" / "step").mkdir(parents=True)
    (tmp_path / "cgroup" / "job" / "step" / "memory.events").write_text("low 0\noom 1\noom_kill 1\n")
    (tmp_path / "kmsg").write_text("6,1,1,-;Out of memory: Killed process 42 (python) of the past\n")
    return tmp_path


def kernel_of(machine: Path) -> KernelEvidence:
    """Evidence about process 42 of that machine."""
    return KernelEvidence(42, machine / "proc", machine / "cgroup", machine / "kmsg")


def test_without_a_sign_there_is_no_oom(machine: Path) -> None:
    assert kernel_of(machine).oom() == ("", "")


def test_the_counter_of_the_cgroup_counts(machine: Path) -> None:
    kernel = kernel_of(machine)
    (machine / "cgroup" / "job" / "step" / "memory.events").write_text("low 0\noom 2\noom_kill 2\n")
    assert "memory cgroup" in kernel.oom()[0]


def test_the_counter_of_version_1_counts(machine: Path) -> None:
    (machine / "proc" / "42" / "cgroup").write_text("9:cpu,cpuacct:/x\n4:memory:/job\n")
    (machine / "cgroup" / "memory" / "job").mkdir(parents=True)
    control = machine / "cgroup" / "memory" / "job" / "memory.oom_control"
    control.write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 0\n")
    kernel = kernel_of(machine)
    control.write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 1\n")
    assert "memory cgroup" in kernel.oom()[0]


@pytest.mark.parametrize(
    ("line", "counts"),
    [
        ("Out of memory: Killed process 42 (python3) total-vm:1kB, anon-rss:1kB", True),
        ("Memory cgroup out of memory: Killed process 42 (python3)", True),
        ("oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),task=python3,pid=42,uid=0", True),
        ("Out of memory: Killed process 421 (python3)", False),
        ("audit: process 42 exited", False),
    ],
)
def test_the_kernel_names_its_victim(machine: Path, line: str, counts: bool) -> None:
    kernel = kernel_of(machine)
    with (machine / "kmsg").open("a") as log:
        log.write(f"3,2,2,-;{line}\n")
    words, found = kernel.oom()
    assert (bool(words), found) == (counts, line if counts else "")
