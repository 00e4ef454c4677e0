"""How a watched process ends is reported as it was, by a sidecar that is not its parent."""

import os
import signal
import sys
from pathlib import Path

import pytest

from tests.integration.sdk.jobs import Jobs, sidecars_of, until
from tests.integration.sdk.peer import Receiver

pytestmark = pytest.mark.integration


@pytest.mark.parametrize(
    ("lines", "returncode", "state", "code", "number"),
    [
        ("os.kill(os.getpid(), signal.SIGKILL); time.sleep(60)", -signal.SIGKILL, "killed", None, signal.SIGKILL),
        ("import ctypes; ctypes.string_at(0)", -signal.SIGSEGV, "killed", None, signal.SIGSEGV),
        ("os.abort()", -signal.SIGABRT, "killed", None, signal.SIGABRT),
        ("os._exit(3)", 3, "failed", 3, None),
        ("os._exit(0)", 0, "finished", 0, None),
        ("os.kill(os.getpid(), signal.SIGTERM); time.sleep(60)", -signal.SIGTERM, "cancelled", None, signal.SIGTERM),
        ("beacon.exit(Exit.FINISHED, 0, '')", 0, "finished", 0, None),
        ("beacon.exit(Exit.FAILED, 1, 'ValueError: x'); sys.exit(1)", 1, "failed", 1, None),
        ("beacon.exit(Exit.FINISHED, 0, ''); os.abort()", -signal.SIGABRT, "killed", None, signal.SIGABRT),
    ],
)
def test_the_end_is_told(
    jobs: Jobs, receiver: Receiver, lines: str, returncode: int, state: str, code: int | None, number: int | None
) -> None:
    assert jobs.run(lines) == returncode
    (exit_record,) = receiver.wait("train.exit")
    attributes = exit_record.attributes
    assert attributes["train.exit.state"] == state
    assert attributes.get("train.exit.code") == code
    assert attributes.get("train.exit.signal") == number
    assert attributes["train.exit.source"] == "sidecar"
    assert attributes["train.step"] == 7
    assert exit_record.resource == {"train.rank": 3, "service.instance.id": "i-1"}
    assert receiver.headers[0]["authorization"] == "Bearer ffk_test"
    jobs.wait_for_sidecars()
    assert len(receiver.of("train.exit")) == 1


def test_a_finish_that_the_service_knows_is_not_repeated(jobs: Jobs, receiver: Receiver) -> None:
    seen = jobs.folder / "seen"
    job = jobs.start(f"while not os.path.exists({str(seen)!r}): time.sleep(0.01)\nbeacon.exit(Exit.FINISHED, 0, ''); beacon.exit_sent()")
    receiver.wait("train.heartbeat")
    seen.touch()
    job.communicate(timeout=20)
    assert job.returncode == 0
    jobs.wait_for_sidecars()
    assert receiver.of("train.exit") == []


def test_a_failure_that_the_service_knows_is_confirmed_with_the_tail(jobs: Jobs, receiver: Receiver) -> None:
    lines = "sys.stderr.write('last words\\n'); beacon.exit(Exit.FAILED, 1, 'ValueError: x'); beacon.exit_sent(); sys.exit(1)"
    assert jobs.run(lines) == 1
    (exit_record,) = receiver.wait("train.exit")
    assert exit_record.attributes["train.exit.state"] == "failed"
    assert exit_record.attributes["train.exit.reason"] == "ValueError: x"
    assert exit_record.attributes["firstfault.stderr.tail"] == ["last words"]


@pytest.mark.parametrize(
    ("line", "state"),
    [
        ("slurmstepd: error: *** JOB 7 ON node3 CANCELLED AT 2026-11-29T18:00:00 DUE TO PREEMPTION ***", "preempted"),
        ("slurmstepd: error: *** JOB 7 ON node3 CANCELLED AT 2026-11-29T18:00:00 DUE TO TIME LIMIT ***", "time_limit"),
        ("slurmstepd: error: *** STEP 7.0 ON node3 CANCELLED AT 2026-11-29T18:00:00 ***", "cancelled"),
    ],
)
def test_the_scheduler_says_why_it_stopped_the_job(jobs: Jobs, receiver: Receiver, line: str, state: str) -> None:
    jobs.run(f"sys.stderr.write({line + chr(10)!r}); sys.stderr.flush(); os.kill(os.getpid(), signal.SIGTERM); time.sleep(60)")
    (exit_record,) = receiver.wait("train.exit")
    assert exit_record.attributes["train.exit.state"] == state
    assert line in exit_record.attributes["train.exit.reason"]


def test_sigterm_at_the_announced_end_is_a_time_limit(jobs: Jobs, receiver: Receiver) -> None:
    jobs.run("os.kill(os.getpid(), signal.SIGTERM); time.sleep(60)", SLURM_JOB_END_TIME="1")
    assert receiver.wait("train.exit")[0].attributes["train.exit.state"] == "time_limit"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_signal_to_the_whole_group_leaves_the_sidecar_to_report(jobs: Jobs, receiver: Receiver, number: signal.Signals) -> None:
    job = jobs.start("time.sleep(60)")
    (sidecar,) = sidecars_of(job.pid)
    os.kill(sidecar, signal.SIGTERM)
    os.kill(sidecar, signal.SIGHUP)
    os.killpg(job.pid, number)
    assert receiver.wait("train.exit")[0].attributes["train.exit.signal"] == number
    jobs.wait_for_sidecars()


def test_the_death_of_the_sidecar_costs_the_job_nothing(jobs: Jobs) -> None:
    job = jobs.start("sys.stdin.read(); time.sleep(0.2); sys.exit(4)")
    (sidecar,) = sidecars_of(job.pid)
    os.kill(sidecar, signal.SIGKILL)
    out, _ = job.communicate(timeout=10)
    assert (job.returncode, out) == (4, b"")


def test_wait_in_the_job_never_sees_the_sidecar(jobs: Jobs) -> None:
    lines = """
signal.signal(signal.SIGCHLD, lambda *_: os._exit(9))
child = os.fork()
if child == 0:
    os._exit(5)
signal.signal(signal.SIGCHLD, signal.SIG_DFL)
seen = os.wait()
assert seen == (child, 5 << 8), seen
try:
    os.wait()
except ChildProcessError:
    os._exit(6)
"""
    assert jobs.run(lines.replace("signal.signal(signal.SIGCHLD, lambda *_: os._exit(9))\n", "")) == 6


def test_no_descriptor_of_the_job_is_kept(jobs: Jobs, receiver: Receiver) -> None:
    """Inheritable ones too: a kept pipe would keep its reader waiting after the job has ended."""
    job = jobs.start("os.set_inheritable(1, True); extra = os.open('/etc/hostname', os.O_RDONLY); time.sleep(60)")
    receiver.wait("train.heartbeat", 2)  # by then everything is imported
    (sidecar,) = sidecars_of(job.pid)
    targets = {fd.name: str(fd.readlink()) for fd in Path(f"/proc/{sidecar}/fd").iterdir()}
    assert [targets[name] for name in ("0", "1", "2")] == ["/dev/null"] * 3
    known = ("/dev/null", "/dev/kmsg", "socket:", "anon_inode:[pidfd]", "pidfd:", "/memfd:firstfault", str(jobs.stderr))
    assert [target for target in targets.values() if not target.startswith(known)] == []


def test_the_sidecar_stays_small(jobs: Jobs, receiver: Receiver) -> None:
    job = jobs.start("for n in range(20000): sys.stderr.write(f'{n} ' + 200 * 'x' + '\\n')\ntime.sleep(60)")
    receiver.wait("train.heartbeat", 5)
    (sidecar,) = sidecars_of(job.pid)
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{sidecar}/smaps_rollup").read_text().splitlines()[1:])
    kilobytes = {name: int(value.split()[0]) for name, value in fields.items()}
    own = kilobytes["Private_Dirty"] + kilobytes["Private_Clean"]
    assert own < 20 * 1024, kilobytes
    assert kilobytes["Rss"] < 32 * 1024, kilobytes


def test_a_forked_worker_has_no_sidecar_and_outliving_it_changes_nothing(jobs: Jobs, receiver: Receiver) -> None:
    lines = """
if os.fork() == 0:
    time.sleep(1.5)
    os._exit(0)
os._exit(3)
"""
    job = jobs.start(lines)
    assert job.wait(10) == 3
    assert receiver.wait("train.exit")[0].attributes["train.exit.code"] == 3
    jobs.wait_for_sidecars()


def test_a_process_that_executes_another_program_is_finished(jobs: Jobs, receiver: Receiver) -> None:
    job = jobs.start("os.execv(sys.executable, [sys.executable, '-c', 'import time; time.sleep(60)'])")
    (exit_record,) = receiver.wait("train.exit")
    assert exit_record.attributes["train.exit.state"] == "finished"
    assert "another program" in exit_record.attributes["train.exit.reason"]
    until(lambda: sidecars_of(job.pid) == [])
    assert job.poll() is None


def test_key_and_secrets_are_not_to_be_seen_in_the_process_table(jobs: Jobs) -> None:
    job = jobs.start("time.sleep(60)", environ={"SERVICE_TOKEN": "cAnaRy-7391"})
    (sidecar,) = sidecars_of(job.pid)
    seen = Path(f"/proc/{sidecar}/cmdline").read_bytes() + Path(f"/proc/{sidecar}/environ").read_bytes()
    assert b"ffk_test" not in seen
    assert b"cAnaRy" not in seen
    assert b"PYTHONPATH" not in seen


@pytest.mark.parametrize("executable", ["", "/bin/true", "/nowhere/python3"])
def test_a_job_without_interpreter_goes_on_without_sidecar(jobs: Jobs, executable: str) -> None:
    script = f"""
import os, sys
from firstfault._sidecar_config import SidecarConfig
from firstfault.sidecar.start import start_sidecar
sys.executable = {executable!r}
try:
    start_sidecar(SidecarConfig(pid=os.getpid()))
except OSError:
    sys.exit(5)
"""
    job = jobs.command([sys.executable, "-c", script], ready=False)
    assert job.wait(10) == 5
    assert until(lambda: sidecars_of(job.pid) == [])
