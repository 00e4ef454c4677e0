"""Which lines of stderr are sent, how bytes become text, and how many of them."""

import traceback
from collections.abc import Callable, Sequence

import pytest

from firstfault.sidecar.lines import LONGEST_LINE, RateLimit, Severity, TracebackReader, decode_line, severity_of


@pytest.mark.parametrize(
    ("line", "severity"),
    [
        (
            "[rank3]:[E1129 18:00:00.123 ProcessGroupNCCL.cpp:616] [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(",
            Severity.ERROR,
        ),
        ("[rank3]:[F1129 18:00:00.123 ProcessGroupNCCL.cpp:1554] [PG ID 0] terminating the process", Severity.FATAL),
        ("node7:12:13 [0] transport/net_ib.cc:1295 NCCL WARN NET/IB : Got completion from peer", Severity.WARN),
        ("ncclSystemError: System call (e.g. socket, malloc) or external library call failed", Severity.ERROR),
        ("terminate called after throwing an instance of 'c10::DistBackendError'", Severity.FATAL),
        ("  what():  CUDA error: an illegal memory access was encountered", Severity.ERROR),
        ("../aten/src/ATen/native/cuda/Indexing.cu:1290: Assertion `srcIndex` failed. device-side assert triggered", Severity.ERROR),
        ("Fatal Python error: Segmentation fault", Severity.FATAL),
        ("/usr/bin/bash: line 1:  4711 Killed                  python train.py", Severity.ERROR),
        ("slurmstepd: error: Detected 1 oom_kill event in StepId=7.0. Some of the step tasks have been OOM Killed.", Severity.ERROR),
        ("slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT 2026-11-29T18:00:00 DUE TO TIME LIMIT ***", Severity.ERROR),
        ("=>> PBS: job killed: walltime 3607 exceeded limit 3600", Severity.ERROR),
        ("TERM_RUNLIMIT: job killed after reaching LSF run time limit.", Severity.ERROR),
        ("  exitcode  : -9 (pid: 42)", Severity.ERROR),
        ("  traceback : Signal 9 (SIGKILL) received by PID 42", Severity.ERROR),
        ("RuntimeError: [pair.cc:534] Connection closed by peer [127.0.0.1]:4242", Severity.ERROR),
        ("2026-11-29 18:00:00 | ERROR | trainer | could not save", Severity.ERROR),
        ("OSError: [Errno 28] No space left on device", Severity.ERROR),
        ("Traceback (most recent call last):", None),
        ('  File "train.py", line 3, in ERROR', None),
        ("[rank1]: Traceback (most recent call last):", None),
        ("step 100 loss 2.5 errors 0", None),
        ("exitcode: 0 (pid: 42)", None),
        ("", None),
    ],
)
def test_severity(line: str, severity: Severity | None) -> None:
    assert severity_of(line) == severity


def worthy(lines: Sequence[str]) -> list[str]:
    """Lines of a stderr that would be sent."""
    reader = TracebackReader()
    return [line for line in lines if line.strip() and not reader.covers(line) and severity_of(line) is not None]


class CUDA:
    """Its name stands before the message, as in `torch.cuda.OutOfMemoryError`."""

    class OutOfMemoryError(RuntimeError):
        """An exception of a nested class."""


def _plain() -> None:
    raise RuntimeError("CUDA error: out of memory, Killed")


def _many_lines() -> None:
    raise RuntimeError("Error(s) in loading:\n\tCUDA error in layer 1\n    Broken pipe in layer 2")


def _nested_type() -> None:
    raise CUDA.OutOfMemoryError("CUDA error: out of memory")


def _without_context() -> None:
    try:
        _plain()
    except RuntimeError:
        raise OSError("No space left on device: ERROR") from None


def _context() -> None:
    try:
        _plain()
    except RuntimeError:
        _nested_type()


def _deep(left: int = 2000) -> None:
    _deep(left - 1) if left else _plain()  # Broken pipe, ERROR


def _syntax() -> None:
    compile("Killed = = 'CUDA error'", "ERROR.py", "exec")


def _traceback_of(act: Callable[[], None]) -> list[str]:
    with pytest.raises(Exception) as caught:
        act()
    return "".join(traceback.format_exception(caught.value)).splitlines()


# As Python 3.11 and later print it; older ones have no such thing.
_GROUPS = """\
  + Exception Group Traceback (most recent call last):
  |   File "train.py", line 9, in main
  |     raise ExceptionGroup("CUDA error in two workers", errors)
  | ExceptionGroup: CUDA error in two workers (2 sub-exceptions)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "train.py", line 6, in main
    |     raise OSError("Broken pipe")
    | OSError: Broken pipe
    | ERROR in the second line
    |
    | During handling of the above exception, another exception occurred:
    |
    | Traceback (most recent call last):
    |   File "train.py", line 8, in main
    |     raise RuntimeError("ERROR")
    | RuntimeError: ERROR
    +---------------- 2 ----------------
    | Exception Group Traceback (most recent call last):
    |   File "train.py", line 7, in main
    |     raise ExceptionGroup("Killed", [OSError("Connection refused")])
    | ExceptionGroup: Killed (1 sub-exception)
    +-+---------------- 1 ----------------
      | OSError: Connection refused
      +---------------- ... ----------------
      | and 3 more exceptions: ERROR
      +------------------------------------

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "train.py", line 11, in <module>
    raise RuntimeError("Watchdog") from group
    ~~~~~^^^^^^^
RuntimeError: Watchdog""".splitlines()
_PREFIXES = ["", "[rank0]: ", "[default3]:", "[default3]:[rank3]: ", "[1,12]<stderr>:", "12: "]


@pytest.mark.parametrize("act", [_plain, _many_lines, _nested_type, _without_context, _context, _deep, _syntax])
@pytest.mark.parametrize("prefix", _PREFIXES)
def test_no_line_of_a_traceback_is_sent_and_what_is_around_it_is(act: Callable[[], None], prefix: str) -> None:
    before, after = "E: CUDA error before, ERROR", "slurmstepd: error: after"
    assert worthy([before, *(prefix + line for line in _traceback_of(act)), after]) == [before, after]


@pytest.mark.parametrize("prefix", _PREFIXES)
def test_no_line_of_an_exception_group_is_sent(prefix: str) -> None:
    assert worthy([*(prefix + line for line in _GROUPS), prefix + "ERROR after"]) == [prefix + "ERROR after"]


def test_lines_of_others_within_a_traceback_are_sent() -> None:
    others = [
        "slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT 2026-11-29T18:00:00 ***",
        "ERROR: Unexpected bus error encountered in worker.",
        "[rank3]:[E1129 18:00:00.123 ProcessGroupNCCL.cpp:616] Watchdog caught collective operation timeout",
        "terminate called after throwing an instance of 'c10::DistBackendError'",
        "  what():  CUDA error: an illegal memory access was encountered",
        "Killed",
        "TERM_RUNLIMIT: job killed after reaching LSF run time limit.",
    ]
    lines = _traceback_of(_context)
    for other in others:
        assert worthy([part for line in lines for part in (line, other)]) == [other] * len(lines), other


def test_ranks_that_share_a_file_have_a_traceback_each() -> None:
    assert worthy([f"[rank{rank}]: {line}" for line in _traceback_of(_context) for rank in range(8)]) == []


def test_a_traceback_that_never_ends_hides_nothing_for_long() -> None:
    cut = ["Traceback (most recent call last):", '  File "train.py", line 3, in main', *["step"] * 60, "    CUDA error: indented"]
    assert worthy(cut) == ["    CUDA error: indented"]


def test_a_dump_of_faulthandler_hides_nothing_behind_it() -> None:
    dump = ["Fatal Python error: Segmentation fault", "Current thread 0x1 (most recent call first):", '  File "ERROR.py", line 3 in main']
    assert worthy([*dump, "    CUDA error: indented"]) == [dump[0], "    CUDA error: indented"]


def test_any_number_of_streams_is_held_in_bounds() -> None:
    reader = TracebackReader()
    for rank in range(2000):
        assert reader.covers(f"[rank{rank}]: Traceback (most recent call last):")
    assert len(reader._open) <= 256


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"plain\n", "plain"),
        (b"windows\r\n", "windows"),
        (b"\r 10%\r 20%", " 20%"),
        (b"bad \xff byte", r"bad \xff byte"),
        ("ümlaut".encode(), "ümlaut"),
        (b"x" * (LONGEST_LINE + 5), "x" * LONGEST_LINE + " … [5 bytes cut]"),
    ],
)
def test_text_of_a_line(raw: bytes, text: str) -> None:
    assert decode_line(raw) == text


def test_rate_is_bounded_and_recovers() -> None:
    rate = RateLimit(per_second=2.0, burst=3)
    assert [rate.allow(10.0) for _ in range(5)] == [True, True, True, False, False]
    assert [rate.allow(11.0) for _ in range(3)] == [True, True, False]
    assert sum(rate.allow(1000.0) for _ in range(10)) == 3
    assert rate.refused == 2 + 1 + 7
