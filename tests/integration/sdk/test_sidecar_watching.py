"""While a process lives, its sidecar tells that it does, how it stands, and what its stderr says."""

import os
import pty
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.integration.sdk.jobs import Jobs, sidecars_of, until
from tests.integration.sdk.peer import Receiver

pytestmark = pytest.mark.integration
SLEEP = "time.sleep(60)"


def _kill(job: subprocess.Popen[bytes]) -> None:
    job.kill()
    job.communicate(timeout=10)


def test_heartbeats_number_their_batches_and_carry_step_and_age(jobs: Jobs, receiver: Receiver) -> None:
    jobs.start("beacon.phase('checkpoint', 1, time.time_ns(), 60.0)\n" + SLEEP)
    beats = receiver.wait("train.heartbeat", 4)
    assert [beat.scope["firstfault.batch.seq"] for beat in beats] == [1, 2, 3, 4]
    assert {beat.scope["firstfault.batch.sender"] for beat in beats} == {"sidecar"}
    assert {beat.attributes["train.step"] for beat in beats} == {7}
    assert beats[-1].attributes["train.phase.name"] == "checkpoint"
    assert beats[-1].attributes["process.state"] in ("S", "R", "D")
    ages = [beat.attributes["train.progress.age_s"] for beat in beats]
    assert ages == sorted(ages)
    assert ages[-1] > ages[0] >= 0


def test_a_held_interpreter_lock_is_not_death(jobs: Jobs, receiver: Receiver) -> None:
    """`PyDLL` keeps the lock during the call: no thread of the process runs."""
    job = jobs.start("import ctypes; ctypes.PyDLL(None).sleep(60)")
    before = len(receiver.of("train.heartbeat"))
    beats = receiver.wait("train.heartbeat", before + 8)
    assert beats[-1].attributes["train.progress.age_s"] > 1.0
    assert receiver.of("train.exit") == []
    _kill(job)
    assert receiver.wait("train.exit")[0].attributes["train.exit.signal"] == signal.SIGKILL


def test_a_stopped_process_shows_its_state(jobs: Jobs, receiver: Receiver) -> None:
    job = jobs.start(SLEEP)
    os.kill(job.pid, signal.SIGSTOP)
    receiver.wait("train.heartbeat", where=lambda beat: beat.attributes["process.state"] == "T")
    assert receiver.of("train.exit") == []


def test_lines_that_matter_go_out_at_once_and_the_rest_in_the_tail(jobs: Jobs, receiver: Receiver) -> None:
    lines = (
        r"""
def say(line):
    os.write(2, line + b"\n")
for n in range(250):
    say(b"step %d" % n)
say(b"[rank0]:[E1129 18:00:00.1 ProcessGroupNCCL.cpp:616] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7)")
say(b"Traceback (most recent call last):")
say(b'  File "x.py", line 1, in <module>')
say(b"node7:12:13 [0] NCCL WARN Call to connect failed \xff\xfe")
say(b"CUDA error at https://u:cAnaRy@h/: password=cAnaRy value cAnaRy-7391")
say(b"\r  1%\r 50%\r100%")
say(b"y" * 10000)
os.write(2, b"no end")
"""
        + SLEEP
    )
    job = jobs.start(lines, environ={"SERVICE_TOKEN": "cAnaRy-7391"})
    worthy = receiver.wait("train.log", 3)
    assert [(record.severity, record.body[:20]) for record in worthy] == [
        (17, "[rank0]:[E1129 18:00"),
        (13, "node7:12:13 [0] NCCL"),
        (17, "CUDA error at https:"),
    ]
    assert worthy[1].body.endswith(r"\xff\xfe")
    assert worthy[0].attributes["log.file.path"] == str(jobs.stderr)
    assert worthy[0].attributes["log.iostream"] == "stderr"
    _kill(job)
    (exit_record,) = receiver.wait("train.exit")
    assert exit_record.attributes["firstfault.stderr.status"] == "seen"
    tail = exit_record.attributes["firstfault.stderr.tail"]
    assert len(tail) == 200
    assert tail[-1] == "no end"
    assert tail[-2].endswith("[5904 bytes cut]")
    assert tail[-3] == "100%"
    assert tail[0] == "step 58"
    assert "cAnaRy" not in repr(receiver.of("train.log")) + repr(tail)
    assert len(receiver.of("train.log")) == 3


def test_what_stood_in_the_file_before_is_not_this_process_speaking(jobs: Jobs, receiver: Receiver) -> None:
    jobs.stderr.write_text("CUDA error of the attempt before\n")
    job = jobs.start("os.write(2, b'of mine\\n'); print('written', flush=True); " + SLEEP)
    assert job.stdout is not None
    assert job.stdout.readline() == b"written\n"
    _kill(job)
    (exit_record,) = receiver.wait("train.exit")
    assert exit_record.attributes["firstfault.stderr.tail"] == ["of mine"]
    assert receiver.of("train.log") == []


def test_a_truncated_file_is_read_from_its_start(jobs: Jobs, receiver: Receiver) -> None:
    jobs.stderr.write_text("x" * 1000 + "\n")
    job = jobs.start("os.ftruncate(2, 0); os.write(2, b'CUDA error after rotation\\n'); " + SLEEP)
    assert receiver.wait("train.log")[0].body == "CUDA error after rotation"
    _kill(job)


def test_a_flood_is_limited_and_counted(jobs: Jobs, receiver: Receiver) -> None:
    job = jobs.start("for n in range(5000): os.write(2, b'CUDA error %d\\n' % n)\nbeacon.exit(Exit.FAILED, 1, 'x'); os._exit(1)")
    job.communicate(timeout=10)
    scope = receiver.wait("train.exit")[0].scope
    assert '"stderr_rate"' in scope["firstfault.dropped"]
    assert len(receiver.of("train.log")) < 200


def test_stderr_in_a_pipe_is_said_to_be_unseen(jobs: Jobs, receiver: Receiver) -> None:
    _kill(jobs.start(SLEEP, stderr=subprocess.PIPE))
    attributes = receiver.wait("train.exit")[0].attributes
    assert attributes["firstfault.stderr.status"] == "not_seen: pipe"
    assert "firstfault.stderr.tail" not in attributes


def test_stderr_on_a_terminal_is_said_to_be_unseen(jobs: Jobs, receiver: Receiver) -> None:
    ours, theirs = pty.openpty()
    try:
        _kill(jobs.start(SLEEP, stderr=theirs))
        assert receiver.wait("train.exit")[0].attributes["firstfault.stderr.status"] == "not_seen: terminal"
    finally:
        os.close(ours)
        os.close(theirs)


def test_closed_stderr_is_said_to_be_unseen(jobs: Jobs, receiver: Receiver) -> None:
    _kill(jobs.start(SLEEP, stderr=subprocess.DEVNULL))
    assert receiver.wait("train.exit")[0].attributes["firstfault.stderr.status"] == "not_seen: closed"


def test_a_refusing_service_gets_the_same_batch_again(jobs: Jobs, receiver: Receiver) -> None:
    job = jobs.start(SLEEP)
    receiver.wait("train.heartbeat", 2)
    receiver.answers += [503, 503]
    _kill(job)
    (exit_record,) = receiver.wait("train.exit")
    assert exit_record.attributes["train.exit.state"] == "killed"
    jobs.wait_for_sidecars()
    assert len(receiver.of("train.exit")) == 1


@contextmanager
def _unhelpful(kind: str) -> Iterator[str]:
    """An address where no service answers: nobody listens, or nobody ever reads."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    if kind == "black hole":
        listener.listen(0)
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.close()


@pytest.mark.parametrize("kind", ["absent", "black hole"])
def test_without_a_service_job_and_sidecar_end_in_time(jobs: Jobs, kind: str) -> None:
    with _unhelpful(kind) as endpoint:
        job = jobs.start("sys.stdin.read(); time.sleep(0.3); sys.exit(5)", environ={"FIRSTFAULT_ENDPOINT": endpoint})
        assert len(sidecars_of(job.pid)) == 1
        started = time.monotonic()
        job.communicate(timeout=10)
        assert job.returncode == 5
        assert time.monotonic() - started < 2
        until(lambda: sidecars_of(job.pid) == [], 10)
    assert len(list(jobs.spool.glob("*-logs.json.gz"))) == 1


def test_what_one_process_left_in_the_spool_is_delivered_after_the_next(jobs: Jobs, receiver: Receiver) -> None:
    receiver.answers += [503] * 1000
    first = jobs.start("os._exit(3)")
    first.communicate(timeout=10)
    until(lambda: sidecars_of(first.pid) == [], 10)
    del receiver.answers[:]
    assert receiver.of("train.exit") == []
    jobs.run("os._exit(4)")
    exits = receiver.wait("train.exit", 2)
    assert {record.attributes["train.exit.code"] for record in exits} == {3, 4}
    until(lambda: not list(jobs.spool.glob("*.gz*")))


def test_an_end_while_the_service_is_away_is_told_when_it_is_back(jobs: Jobs, receiver: Receiver) -> None:
    receiver.answers += [503] * 1000
    job = jobs.start("os._exit(3)", environ={"FIRSTFAULT_SIDECAR_LINGER_S": "60"})
    job.communicate(timeout=10)
    until(lambda: list(jobs.spool.glob("*-logs.json.gz")))
    assert receiver.of("train.exit") == []
    del receiver.answers[:]
    (exit_record,) = receiver.wait("train.exit")
    assert exit_record.attributes["train.exit.code"] == 3
    until(lambda: sidecars_of(job.pid) == [])
    assert not list(jobs.spool.glob("*.gz*"))


def test_a_sidecar_that_only_waits_for_the_service_can_be_stopped(jobs: Jobs, receiver: Receiver) -> None:
    receiver.answers += [503] * 1000
    job = jobs.start("os._exit(3)", environ={"FIRSTFAULT_SIDECAR_LINGER_S": "60"})
    job.communicate(timeout=10)

    def stopped() -> bool:
        for pid in sidecars_of(job.pid) if list(jobs.spool.glob("*-logs.json.gz*")) else []:
            os.kill(pid, signal.SIGTERM)
        return sidecars_of(job.pid) == []

    until(stopped)
    assert len(list(jobs.spool.glob("*-logs.json.gz*"))) == 1


def test_an_unusable_endpoint_costs_the_job_nothing(jobs: Jobs) -> None:
    job = jobs.start("sys.exit(6)", environ={"FIRSTFAULT_ENDPOINT": "not an address", "FIRSTFAULT_SIDECAR_LOG": ""})
    job.communicate(timeout=10)
    assert job.returncode == 6


def test_the_job_can_start_many_threads_first(jobs: Jobs, receiver: Receiver) -> None:
    """The sidecar is not forked from a threaded process: a lock held elsewhere at that moment cannot hang it."""
    script = f"""
import sys, threading
stop = threading.Event()
for _ in range(3):
    threading.Thread(target=lambda: [print(end="", flush=True) for _ in iter(stop.is_set, True)], daemon=True).start()
exec(compile(open({str(jobs.folder / "prelude.py")!r}).read(), "prelude", "exec"))
stop.set()
import os
os._exit(7)
"""
    from tests.integration.sdk.jobs import PRELUDE

    (jobs.folder / "prelude.py").write_text(PRELUDE)
    job = jobs.command([sys.executable, "-c", script])
    job.communicate(timeout=20)
    assert job.returncode == 7
    assert receiver.wait("train.exit")[0].attributes["train.exit.code"] == 7
