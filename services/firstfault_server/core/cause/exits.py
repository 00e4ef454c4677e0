"""What the end of a process means: finished, asked to stop, or failed, and which symptom the signal or status alone suggests."""

import re
from typing import Final, Literal, TypeAlias

import msgspec

from firstfault_server.core.model import RunState

EndKind: TypeAlias = Literal["clean", "stop", "fault"]

# Linux numbers: records come from Linux nodes whatever the service runs on.
SIGNALS: Final = {
    1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 4: "SIGILL", 5: "SIGTRAP", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL", 10: "SIGUSR1",
    11: "SIGSEGV", 12: "SIGUSR2", 13: "SIGPIPE", 14: "SIGALRM", 15: "SIGTERM", 24: "SIGXCPU", 25: "SIGXFSZ", 31: "SIGSYS",
}  # fmt: skip
SIGKILL: Final = 9
_STOPS: Final = frozenset({1, 2, 15})
_CRASHES: Final = frozenset({3, 4, 5, 6, 7, 8, 11, 31})
_OOM: Final = "out-of-memory"
"""What the sidecar writes when the kernel or the memory cgroup told it of an oom-kill."""
_STATES: Final[dict[str, RunState]] = {"preempted": "preempted", "cancelled": "cancelled", "time_limit": "time_limit"}


class Ending(msgspec.Struct, kw_only=True, frozen=True):
    """How one process ended."""

    kind: EndKind
    state: RunState
    symptom: str = ""
    """What the end alone suggests; empty for a clean one."""
    signal: int | None = None
    text: str = ""
    known: bool = True
    """False: neither status nor signal is known."""


def ending(state: str, code: int | None, signal: int | None, reason: str = "") -> Ending:
    """Read one exit record. Shells and containers report a signal as status 128 + number, `subprocess` as a negative one."""
    if state == "failed" and signal is not None and signal in _STOPS:
        # It failed by itself and was stopped on its way out.
        signal = None
    elif signal is None and code is not None:
        signal = code - 128 if 128 < code < 160 else -code if code < 0 else None
    if state in _STATES:
        return Ending(kind="stop", state=_STATES[state], symptom="preempted", signal=signal, text=_said(state.replace("_", " "), reason))
    if signal is not None and signal in _STOPS:
        stopped: RunState = "cancelled" if signal == 2 else "killed"
        text = _said(f"ended by {signal_name(signal)}", reason)
        return Ending(kind="stop", state=stopped, symptom="preempted", signal=signal, text=text)
    if signal is not None:
        symptom = "host_oom" if _OOM in reason else "process_crashed" if signal in _CRASHES else "process_killed"
        text = _said(f"killed by {signal_name(signal)}", reason)
        return Ending(kind="fault", state="killed", symptom=symptom, signal=signal, text=text)
    if state == "finished" and not code:
        return Ending(kind="clean", state="finished", text=_said("finished", reason))
    if code:
        return Ending(kind="fault", state="failed", symptom="unknown", text=_said(f"exit status {code}", reason))
    if state == "failed":
        return Ending(kind="fault", state="failed", symptom="unknown", text=_said("failed", reason))
    if code == 0 and state != "killed":
        return Ending(kind="clean", state="finished", text=_said("finished", reason))
    return Ending(
        kind="fault",
        state="killed",
        symptom="host_oom" if _OOM in reason else "process_killed",
        text=_said("gone, with neither exit status nor signal known", reason),
        known=False,
    )


def _said(fact: str, reason: str) -> str:
    """The fact, and the record's reason behind it; where the reason begins with the same status or signal, that is said once."""
    if not reason:
        return fact
    known = re.escape(re.sub(r"^(?:exit|ended by|killed by) ", "", fact))
    rest = re.sub(rf"^(?:exit |ended with |ended by |killed by )?{known}(?!\w)", "", reason, count=1)
    return f"{fact}: {reason}" if rest == reason else fact + rest


def signal_name(signal: int) -> str:
    """`SIGKILL` for 9."""
    return SIGNALS.get(signal, f"signal {signal}")
