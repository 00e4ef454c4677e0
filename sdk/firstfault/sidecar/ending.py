"""Says how a process ended from everything its sidecar knows; pure.

Order of trust: what the process said itself (its own exception comes before whatever ended it afterwards), the exact status,
the words of the scheduler or launcher in stderr. A stop signal is a preemption or a time limit only with evidence: the
scheduler's own words or its announced end time. SIGTERM, SIGINT and SIGHUP without any are `cancelled`, sender unknown: on
every system seen, people and supervisors stop jobs that way far more often than faults do, and the run stage tells the
teardown of surviving ranks from it by what the other ranks did.
"""

import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass, field

from firstfault._beacon import Exit, Reading
from firstfault.sidecar.death import Status

FINISHED, FAILED, KILLED, PREEMPTED, CANCELLED, TIME_LIMIT, UNKNOWN = (
    "finished",
    "failed",
    "killed",
    "preempted",
    "cancelled",
    "time_limit",
    "unknown",
)
_STOP_SIGNALS = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP})
_END_TIME_SLACK_S = 60.0
"""Slurm announces the end of a job with SIGTERM up to this long before (its `KillWait` and `--signal` are of that order)."""
# Slurm, PBS, LSF.
_SCHEDULER_WORDS = (
    (TIME_LIMIT, re.compile(r"DUE TO TIME LIMIT|PBS: job killed: walltime |TERM_RUNLIMIT\b")),
    (PREEMPTED, re.compile(r"DUE TO PREEMPTION|TERM_PREEMPT\b")),
    (CANCELLED, re.compile(r"\*\*\* (?:STEP|JOB) \S+ ON \S+ CANCELLED AT ")),
)
_LAUNCHER_EXIT = re.compile(r"exitcode\s*:\s*(-?\d+)\s*\)?\s+\(pid:\s*(\d+)\)|exitcode:\s*(-?\d+)\)\s+local_rank:\s*\d+\s+\(pid:\s*(\d+)\)")
_LAUNCHER_SIGNAL = re.compile(r"Signal (\d+) \(SIG[A-Z0-9]+\) received by PID (\d+)")


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What is known when a process has ended."""

    pid: int
    died_at_s: float
    """Seconds since the epoch."""
    status: Status | None = None
    beacon: Reading | None = None
    lines: Sequence[str] = field(default_factory=tuple)
    """Last lines of stderr."""
    oom: str = ""
    """Words for an out-of-memory kill that the kernel or the memory cgroup reported; empty without."""
    end_time_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class Ending:
    """Attributes of the exit record."""

    state: str
    code: int | None
    signal: int | None
    source: str
    reason: str
    known_already: bool = False
    """The process said the same itself and was heard: a record would add nothing but the stderr tail."""


def status_from_launcher(lines: Sequence[str], pid: int) -> Status | None:
    """What torchrun printed about a process: `exitcode: -9 (pid: 4711)`, `Signal 9 (SIGKILL) received by PID 4711`."""
    for line in reversed(lines):
        found = _LAUNCHER_SIGNAL.search(line)
        if found and int(found[2]) == pid:
            return Status(signal=int(found[1]), source="launcher")
        found = _LAUNCHER_EXIT.search(line)
        if found and int(found[2] or found[4]) == pid:
            code = int(found[1] or found[3])
            return Status(signal=-code, source="launcher") if code < 0 else Status(code=code, source="launcher")
    return None


def scheduler_words(lines: Sequence[str]) -> tuple[str, str] | None:
    """State that the scheduler announced in stderr, and the line that says so."""
    return next(((state, line) for state, words in _SCHEDULER_WORDS for line in lines if words.search(line)), None)


def ending_of(evidence: Evidence) -> Ending:
    """The exit record that follows from the evidence."""
    beacon, status = evidence.beacon, evidence.status
    said = beacon.exit if beacon is not None else Exit.RUNNING
    if beacon is None or said is Exit.RUNNING:
        return _silent(evidence)
    name = FINISHED if said is Exit.FINISHED else FAILED
    stopped = _stop_by_itself(evidence, beacon) if said is Exit.FAILED else None
    if stopped is not None:
        return stopped
    if status is None:
        return Ending(
            state=name,
            code=beacon.exit_code,
            signal=None,
            source="sidecar",
            reason=beacon.reason or f"the process said that it {name}",
            known_already=beacon.exit_sent,
        )
    if said is Exit.FAILED:
        after = f"; then ended by {_name(status.signal)}" if status.signal is not None else ""
        return Ending(
            state=FAILED,
            code=status.code,
            signal=status.signal,
            source=status.source,
            reason=(beacon.reason or "the process said that it failed") + after,
            known_already=beacon.exit_sent,
        )
    if status.signal is None and status.code == 0:
        return Ending(state=FINISHED, code=0, signal=None, source=status.source, reason="", known_already=beacon.exit_sent)
    late = _silent(evidence)
    return Ending(
        state=late.state,
        code=late.code,
        signal=late.signal,
        source=late.source,
        reason=f"{late.reason}, after it said that it had finished",
    )


def _stop_by_itself(evidence: Evidence, beacon: Reading) -> Ending | None:
    """The end of a process that caught a stop signal and left with the status that says so: 128 and its number."""
    number = (beacon.exit_code or 0) - 128
    if number not in _STOP_SIGNALS:
        return None
    state, reason = _by_signal(number, evidence, scheduler_words(evidence.lines))
    code = None if evidence.status is None else evidence.status.code
    source = "sidecar" if evidence.status is None else evidence.status.source
    known = beacon.exit_sent and state == CANCELLED
    return Ending(state=state, code=code, signal=number, source=source, reason=beacon.reason or reason, known_already=known)


def _silent(evidence: Evidence) -> Ending:
    """The end of a process that did not say anything itself."""
    status = evidence.status
    words = scheduler_words(evidence.lines)
    if status is None:
        if words is not None:
            return Ending(state=words[0], code=None, signal=None, source="launcher", reason=words[1])
        reason = evidence.oom or "ended without a word; its status was not visible to the sidecar"
        return Ending(state=KILLED if evidence.oom else UNKNOWN, code=None, signal=None, source="sidecar", reason=reason)
    if status.signal is not None:
        state, reason = _by_signal(status.signal, evidence, words)
        return Ending(state=state, code=None, signal=status.signal, source=status.source, reason=reason)
    if status.code == 0:
        reason = "ended with status 0 without interpreter shutdown (os._exit, or C code called exit)"
        return Ending(state=FINISHED, code=0, signal=None, source=status.source, reason=reason)
    if words is not None and status.code is not None and status.code - 128 in _STOP_SIGNALS:
        return Ending(state=words[0], code=status.code, signal=None, source=status.source, reason=words[1])
    reason = f"ended with status {status.code} without an exception (os._exit, or C code called exit)"
    return Ending(state=FAILED, code=status.code, signal=None, source=status.source, reason=reason)


def _by_signal(number: int, evidence: Evidence, words: tuple[str, str] | None) -> tuple[str, str]:
    name = _name(number)
    stop = number in _STOP_SIGNALS
    if words is not None and (stop or number == signal.SIGKILL):
        return words[0], f"{name}: {words[1]}"
    if evidence.oom and number == signal.SIGKILL:
        return KILLED, f"{name}: {evidence.oom}"
    if number == getattr(signal, "SIGXCPU", None):
        return TIME_LIMIT, f"{name}: CPU time limit of the process"
    if evidence.end_time_s is not None:
        if stop and evidence.died_at_s >= evidence.end_time_s - _END_TIME_SLACK_S:
            return TIME_LIMIT, f"{name} at the end time that the scheduler announced"
        if number == signal.SIGKILL and evidence.died_at_s >= evidence.end_time_s:
            return TIME_LIMIT, f"{name} after the end time that the scheduler announced"
    return (CANCELLED if stop else KILLED), f"{name}, sender unknown" if stop or number == signal.SIGKILL else f"ended by {name}"


def _name(number: int | None) -> str:
    try:
        return signal.Signals(number or 0).name
    except ValueError:
        return f"signal {number}"
