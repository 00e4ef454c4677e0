"""What the sidecar concludes from beacon, status, scheduler words and kernel: one table of cases."""

import signal
from collections.abc import Sequence

import pytest

from firstfault._beacon import Exit, Reading
from firstfault.sidecar.death import Status
from firstfault.sidecar.ending import Evidence, ending_of, status_from_launcher

TIME_LIMIT = "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-11-29T18:00:00 DUE TO TIME LIMIT ***"
PREEMPTED = "slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT 2026-11-29T18:00:00 DUE TO PREEMPTION ***"
CANCELLED = "slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT 2026-11-29T18:00:00 ***"
TERM, KILL = Status(signal=signal.SIGTERM), Status(signal=signal.SIGKILL)


def said(state: Exit, code: int | None = None, *, sent: bool = False, reason: str = "") -> Reading:
    """A page of the beacon."""
    return Reading(
        step=1,
        progress_ns=None,
        exit=state,
        exit_code=code,
        exit_sent=sent,
        status=None,
        phase="",
        phase_depth=0,
        phase_since_ns=None,
        phase_expect_s=None,
        reason=reason,
    )


def evidence(
    status: Status | None, beacon: Reading | None, lines: Sequence[str] = (), *, oom: str = "", end_time_s: float | None = None
) -> Evidence:
    """Evidence about process 42, which died at second 1000."""
    return Evidence(pid=42, died_at_s=1000.0, status=status, beacon=beacon, lines=lines, oom=oom, end_time_s=end_time_s)


RUNNING = said(Exit.RUNNING)


@pytest.mark.parametrize(
    ("given", "state"),
    [
        (evidence(KILL, RUNNING), "killed"),
        (evidence(KILL, None), "killed"),
        (evidence(Status(signal=signal.SIGSEGV), RUNNING), "killed"),
        (evidence(Status(signal=250), RUNNING), "killed"),
        (evidence(TERM, RUNNING), "cancelled"),
        (evidence(Status(signal=signal.SIGINT), RUNNING), "cancelled"),
        (evidence(Status(signal=signal.SIGHUP), RUNNING), "cancelled"),
        (evidence(Status(signal=signal.SIGXCPU), RUNNING), "time_limit"),
        (evidence(TERM, RUNNING, [TIME_LIMIT]), "time_limit"),
        (evidence(KILL, RUNNING, [TIME_LIMIT]), "time_limit"),
        (evidence(TERM, RUNNING, [PREEMPTED]), "preempted"),
        (evidence(TERM, RUNNING, [CANCELLED]), "cancelled"),
        (evidence(TERM, RUNNING, ["=>> PBS: job killed: walltime 3607 exceeded limit 3600"]), "time_limit"),
        (evidence(KILL, RUNNING, ["TERM_RUNLIMIT: job killed after reaching LSF run time limit."]), "time_limit"),
        (evidence(KILL, RUNNING, ["TERM_PREEMPT: job killed after preemption."]), "preempted"),
        (evidence(KILL, RUNNING, [CANCELLED]), "cancelled"),
        (evidence(Status(signal=signal.SIGSEGV), RUNNING, [CANCELLED]), "killed"),
        (evidence(None, RUNNING, [PREEMPTED]), "preempted"),
        (evidence(TERM, RUNNING, end_time_s=1030.0), "time_limit"),
        (evidence(TERM, RUNNING, end_time_s=2000.0), "cancelled"),
        (evidence(KILL, RUNNING, end_time_s=999.0), "time_limit"),
        (evidence(KILL, RUNNING, end_time_s=1030.0), "killed"),
        (evidence(KILL, RUNNING, oom="out of memory"), "killed"),
        (evidence(None, RUNNING, oom="out of memory"), "killed"),
        (evidence(None, RUNNING), "unknown"),
        (evidence(None, None), "unknown"),
        (evidence(Status(code=0), RUNNING), "finished"),
        (evidence(Status(code=3), RUNNING), "failed"),
        (evidence(Status(code=143), RUNNING), "failed"),
        (evidence(Status(code=143), RUNNING, [PREEMPTED]), "preempted"),
        (evidence(None, said(Exit.FINISHED, 0)), "finished"),
        (evidence(Status(code=0), said(Exit.FINISHED, 0)), "finished"),
        (evidence(Status(code=3), said(Exit.FINISHED)), "failed"),
        (evidence(Status(signal=signal.SIGABRT), said(Exit.FINISHED, 0)), "killed"),
        (evidence(TERM, said(Exit.FINISHED, 0)), "cancelled"),
        (evidence(None, said(Exit.FAILED, 1)), "failed"),
        (evidence(Status(code=1), said(Exit.FAILED, 1)), "failed"),
        (evidence(TERM, said(Exit.FAILED, 1)), "failed"),
        (evidence(KILL, said(Exit.FAILED, 1)), "failed"),
        (evidence(Status(signal=signal.SIGINT), said(Exit.FAILED, 130, reason="KeyboardInterrupt")), "cancelled"),
        (evidence(Status(code=143), said(Exit.FAILED, 143)), "cancelled"),
        (evidence(Status(code=143), said(Exit.FAILED, 143), [PREEMPTED]), "preempted"),
    ],
)
def test_state(given: Evidence, state: str) -> None:
    ending = ending_of(given)
    assert ending.state == state
    assert ending.reason or state == "finished"


def test_a_status_is_passed_on_exactly() -> None:
    assert (ending_of(evidence(KILL, RUNNING)).signal, ending_of(evidence(KILL, RUNNING)).code) == (signal.SIGKILL, None)
    assert (ending_of(evidence(Status(code=3), RUNNING)).signal, ending_of(evidence(Status(code=3), RUNNING)).code) == (None, 3)


def test_the_exception_stays_the_reason_when_a_signal_ends_the_process_afterwards() -> None:
    ending = ending_of(evidence(TERM, said(Exit.FAILED, 1, reason="ValueError: x")))
    assert ending.reason == "ValueError: x; then ended by SIGTERM"
    assert ending.signal == signal.SIGTERM


def test_what_the_service_knows_is_known_only_when_the_status_agrees() -> None:
    assert ending_of(evidence(Status(code=0), said(Exit.FINISHED, 0, sent=True))).known_already
    assert ending_of(evidence(Status(code=1), said(Exit.FAILED, 1, sent=True))).known_already
    assert not ending_of(evidence(Status(signal=signal.SIGABRT), said(Exit.FINISHED, 0, sent=True))).known_already
    assert not ending_of(evidence(Status(code=0), said(Exit.FINISHED, 0))).known_already
    assert not ending_of(evidence(Status(code=143), said(Exit.FAILED, 143, sent=True), [PREEMPTED])).known_already


@pytest.mark.parametrize(
    ("line", "status"),
    [
        (
            "E1129 18:00:00.1 api.py:869] failed (exitcode: -9) local_rank: 1 (pid: 42) of binary: /usr/bin/python",
            Status(signal=9, source="launcher"),
        ),
        (
            "E1129 18:00:00.1 api.py:869] failed (exitcode: 3) local_rank: 1 (pid: 42) of binary: /usr/bin/python",
            Status(code=3, source="launcher"),
        ),
        ("  exitcode  : -11 (pid: 42)", Status(signal=11, source="launcher")),
        ("  exitcode  : 1 (pid: 42)", Status(code=1, source="launcher")),
        ("  traceback : Signal 9 (SIGKILL) received by PID 42", Status(signal=9, source="launcher")),
        ("  exitcode  : -9 (pid: 43)", None),
        ("  traceback : Signal 9 (SIGKILL) received by PID 421", None),
        ("exitcode of the run", None),
    ],
)
def test_words_of_torchrun(line: str, status: Status | None) -> None:
    assert status_from_launcher(["before", line, "after"], 42) == status
