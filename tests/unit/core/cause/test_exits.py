"""What an exit record means."""

import pytest

from firstfault_server.core.cause.exits import ending


@pytest.mark.parametrize(
    ("state", "code", "signal", "reason", "kind", "shown", "symptom"),
    [
        ("finished", 0, None, "", "clean", "finished", ""),
        ("finished", None, None, "", "clean", "finished", ""),
        ("", 0, None, "", "clean", "finished", ""),
        ("failed", 1, None, "", "fault", "failed", "unknown"),
        ("failed", None, None, "ValueError", "fault", "failed", "unknown"),
        ("", 3, None, "", "fault", "failed", "unknown"),
        ("killed", None, 9, "", "fault", "killed", "process_killed"),
        ("killed", 137, None, "", "fault", "killed", "process_killed"),
        ("failed", -9, None, "", "fault", "killed", "process_killed"),
        ("killed", None, 9, "SIGKILL: the kernel's out-of-memory killer chose it", "fault", "killed", "host_oom"),
        ("killed", None, 11, "", "fault", "killed", "process_crashed"),
        ("failed", 134, None, "", "fault", "killed", "process_crashed"),
        ("cancelled", None, 15, "SIGTERM, sender unknown", "stop", "cancelled", "preempted"),
        ("killed", None, 15, "", "stop", "killed", "preempted"),
        ("killed", None, 2, "", "stop", "cancelled", "preempted"),
        ("failed", 130, None, "", "stop", "cancelled", "preempted"),
        ("", 143, None, "", "stop", "killed", "preempted"),
        ("preempted", None, 15, "", "stop", "preempted", "preempted"),
        ("time_limit", None, 9, "", "stop", "time_limit", "preempted"),
        ("failed", None, 15, "KeyError; then ended by SIGTERM", "fault", "failed", "unknown"),
        ("unknown", None, None, "", "fault", "killed", "process_killed"),
        ("", None, None, "", "fault", "killed", "process_killed"),
        ("something new", None, None, "", "fault", "killed", "process_killed"),
    ],
)
def test_ending(state: str, code: int | None, signal: int | None, reason: str, kind: str, shown: str, symptom: str) -> None:
    end = ending(state, code, signal, reason)
    assert (end.kind, end.state, end.symptom) == (kind, shown, symptom)
    assert end.known == (bool(signal or code is not None) or state in ("failed", "finished", "killed") or kind == "stop")
    assert end.text and (not reason or reason in end.text)


@pytest.mark.parametrize(
    ("state", "code", "signal", "reason", "text"),
    [
        ("failed", 1, None, "exit status 1", "exit status 1"),
        ("failed", 1, None, "exit status 12 of the child", "exit status 1: exit status 12 of the child"),
        ("failed", 1, None, "no data", "exit status 1: no data"),
        ("failed", 3, None, "ended with status 3 without an exception (os._exit)", "exit status 3 without an exception (os._exit)"),
        ("killed", None, 9, "SIGKILL, sender unknown", "killed by SIGKILL, sender unknown"),
        ("killed", None, 9, "SIGKILL: out-of-memory kill", "killed by SIGKILL: out-of-memory kill"),
        ("killed", None, 11, "ended by SIGSEGV", "killed by SIGSEGV"),
        ("killed", None, 40, "ended by signal 40", "killed by signal 40"),
        ("killed", None, 15, "SIGTERM, sender unknown", "ended by SIGTERM, sender unknown"),
        ("cancelled", None, 15, "SIGTERM, sender unknown", "cancelled: SIGTERM, sender unknown"),
        ("finished", 0, None, "shutdown", "finished: shutdown"),
        ("killed", None, 9, "", "killed by SIGKILL"),
    ],
)
def test_nothing_is_said_twice(state: str, code: int | None, signal: int | None, reason: str, text: str) -> None:
    assert ending(state, code, signal, reason).text == text
