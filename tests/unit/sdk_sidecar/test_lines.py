"""Which lines of stderr are sent, how bytes become text, and how many of them."""

import pytest

from firstfault.sidecar.lines import LONGEST_LINE, RateLimit, Severity, decode_line, severity_of


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
