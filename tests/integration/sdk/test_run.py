"""`firstfault run -- CMD` is CMD: same status, same signals, same streams; around it the SDK is on where it should be."""

import json
import os
import pty
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.sdk.jobs import PRELUDE, SDK, Jobs, until
from tests.integration.sdk.peer import Receiver

pytestmark = pytest.mark.integration
RUN = [sys.executable, "-m", "firstfault", "run"]

# Says `ready`, then counts the signals it gets until it has been quiet for a while after the first.
COUNTER = """
import json, signal, sys, time
seen = {}
def note(number, frame):
    seen[number] = seen.get(number, 0) + 1
for name in ("SIGTERM", "SIGINT", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGQUIT"):
    signal.signal(getattr(signal, name), note)
print("ready", flush=True)
while not seen:
    time.sleep(0.01)
time.sleep(0.5)
print(json.dumps(seen))
sys.exit(11)
"""


@pytest.mark.parametrize("status", [0, 3, 255])
def test_the_status_is_the_commands(jobs: Jobs, status: int) -> None:
    assert jobs.command([*RUN, "--", "sh", "-c", f"exit {status}"], ready=False).wait(20) == status


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM, signal.SIGINT, signal.SIGPIPE])
def test_a_signal_that_ends_the_command_ends_run(jobs: Jobs, number: signal.Signals) -> None:
    assert jobs.command([*RUN, "--", "sh", "-c", f"kill -{int(number)} $$"], ready=False).wait(20) == -number


@pytest.mark.parametrize(("command", "status"), [("/nowhere/at-all", 127), ("no-such-command-anywhere", 127), ("/etc/hostname", 126)])
def test_a_command_that_cannot_start_is_named(jobs: Jobs, command: str, status: int) -> None:
    assert jobs.command([*RUN, "--", command], ready=False).wait(20) == status
    assert f"firstfault run: {command}:" in jobs.stderr.read_text()


@pytest.mark.parametrize(
    ("number", "whom"),
    [
        *(
            (number, "run alone")
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGQUIT)
        ),
        *((number, "whole group") for number in (signal.SIGTERM, signal.SIGINT)),
    ],
)
def test_a_signal_arrives_once(jobs: Jobs, number: signal.Signals, whom: str) -> None:
    process = jobs.command([*RUN, "--", sys.executable, "-c", COUNTER])
    (os.kill if whom == "run alone" else os.killpg)(process.pid, number)
    out, _ = process.communicate(timeout=20)
    assert json.loads(out) == {str(int(number)): 1}
    assert process.returncode == 11


def test_killing_run_kills_the_command(jobs: Jobs) -> None:
    process = jobs.command(
        [*RUN, "--", sys.executable, "-c", "import os, time; print('ready', flush=True); print(os.getpid(), flush=True); time.sleep(60)"]
    )
    assert process.stdout is not None
    pid = int(process.stdout.readline())
    process.kill()
    process.wait(10)
    until(lambda: not Path(f"/proc/{pid}").exists() or "Z" in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2][:3])


def test_control_c_on_a_terminal_arrives_once(jobs: Jobs) -> None:
    ours, theirs = pty.openpty()
    out = jobs.folder / "counted"
    with out.open("wb") as counted:
        process = subprocess.Popen(
            [*RUN, "--", sys.executable, "-c", COUNTER],
            env=jobs.environ(),
            stdin=theirs,
            stdout=counted,
            start_new_session=True,
            preexec_fn=lambda: __import__("fcntl").ioctl(0, __import__("termios").TIOCSCTTY, 0),
        )
    jobs.started.append(process)
    until(lambda: out.read_bytes().startswith(b"ready"))
    os.write(ours, b"\x03")
    assert process.wait(20) == 11
    os.close(ours)
    os.close(theirs)
    assert json.loads(out.read_text().splitlines()[1]) == {str(int(signal.SIGINT)): 1}


def test_disabled_only_runs_the_command(jobs: Jobs) -> None:
    process = jobs.command([*RUN, "--run-id", "r", "--", "env"], environ={"FIRSTFAULT_DISABLED": "1"}, ready=False)
    out, _ = process.communicate(timeout=20)
    names = {line.partition("=")[0] for line in out.decode().splitlines()}
    assert not names & {"FIRSTFAULT_RUN_ID", "FIRSTFAULT_AUTOSTART", "FIRSTFAULT_FALLBACK_RUN_ID", "FIRSTFAULT_LAUNCH_DIR"}


def test_run_id_and_name_reach_the_command_and_the_folder_goes(jobs: Jobs) -> None:
    process = jobs.command([*RUN, "--run-id", "r-7", "--name", "big one", "--", "env"], ready=False)
    out, _ = process.communicate(timeout=20)
    environ = dict(line.split("=", 1) for line in out.decode().splitlines() if "=" in line)
    assert environ["FIRSTFAULT_RUN_ID"] == "r-7"
    assert environ["FIRSTFAULT_RUN_NAME"] == "big one"
    assert environ["FIRSTFAULT_FALLBACK_RUN_ID"].startswith("run-")
    assert not Path(environ["FIRSTFAULT_LAUNCH_DIR"]).exists()
    assert environ["PYTHONPATH"].split(os.pathsep)[1:] == [SDK]


def test_the_parent_leaves_the_status_for_the_sidecar(jobs: Jobs, receiver: Receiver) -> None:
    script = jobs.folder / "job.py"
    script.write_text(PRELUDE + "os.kill(os.getpid(), signal.SIGKILL)")
    process = jobs.command([*RUN, "--", sys.executable, str(script)])
    assert process.wait(20) == -signal.SIGKILL
    attributes = receiver.wait("train.exit")[0].attributes
    assert (attributes["train.exit.signal"], attributes["train.exit.source"]) == (signal.SIGKILL, "launcher")
    until(lambda: not list(jobs.folder.glob("firstfault-run-*")))


def test_captured_stderr_is_byte_for_byte_the_same_and_seen(jobs: Jobs, receiver: Receiver) -> None:
    lines = r"""
os.write(2, b"NCCL WARN \xff\x00\r\n" + b"z" * 100000 + b"\nlast")
subprocess.run(["sh", "-c", "echo from a child >&2"])
os._exit(3)
"""
    script = jobs.folder / "job.py"
    script.write_text(PRELUDE + lines)
    process = jobs.command([*RUN, "--capture-stderr", "--", sys.executable, str(script)], stderr=subprocess.PIPE)
    _, err = process.communicate(timeout=20)
    assert err == b"NCCL WARN \xff\x00\r\n" + b"z" * 100000 + b"\nlastfrom a child\n"
    assert process.returncode == 3
    attributes = receiver.wait("train.exit")[0].attributes
    assert attributes["firstfault.stderr.status"] == "seen"
    assert attributes["firstfault.stderr.tail"][-1] == "lastfrom a child"
    assert not list(jobs.folder.glob("firstfault-stderr-*"))


def test_capture_with_a_reader_that_goes_away_leaves_the_command_alone(jobs: Jobs) -> None:
    script = (
        "import os, sys, time\nprint('ready', flush=True)\nsys.stdin.read()\nfor _ in range(100): os.write(2, b'x' * 10000)\nsys.exit(12)"
    )
    process = jobs.command([*RUN, "--capture-stderr", "--", sys.executable, "-c", script], stderr=subprocess.PIPE)
    assert process.stderr is not None
    process.stderr.close()
    assert process.wait(20) == 12


@pytest.mark.skipif(shutil.which("unshare") is None or os.geteuid() != 0, reason="needs a pid namespace of its own")
def test_as_first_process_of_a_container_it_lets_sidecars_report(jobs: Jobs, receiver: Receiver) -> None:
    script = jobs.folder / "job.py"
    script.write_text(PRELUDE + "os._exit(3)")
    process = jobs.command(["unshare", "--pid", "--fork", "--mount-proc", *RUN, "--", sys.executable, str(script)])
    assert process.wait(20) == 3
    assert receiver.wait("train.exit", timeout_s=2)[0].attributes["train.exit.code"] == 3
