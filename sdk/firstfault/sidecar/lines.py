"""Says which lines of a job's stderr are worth sending at once; pure. The service reads what they mean."""

import re
from enum import IntEnum

LONGEST_LINE = 4096
"""Bytes of one line that are kept."""


class Severity(IntEnum):
    """OpenTelemetry severity numbers that the sidecar uses."""

    INFO = 9
    WARN = 13
    ERROR = 17
    FATAL = 21


# First match wins. Python tracebacks are left out: the process reports its exceptions itself, with frames.
_WORDS: tuple[tuple[Severity, tuple[str, ...]], ...] = (
    (
        Severity.FATAL,
        (
            r"Fatal Python error|Segmentation fault|Bus error|\bAborted\b|Illegal instruction",
            r"terminate called|terminating with uncaught|double free or corruption|corrupted size|\bc10::\w*Error",
            r"(?:^|\]:)\[?F\d{4} \d\d:\d\d",  # glog
        ),
    ),
    (Severity.WARN, (r"NCCL WARN",)),
    (
        Severity.ERROR,
        (
            r"[Ww]atchdog|Heartbeat monitor timed out|collective operation timeout|Timed out waiting|Socket Timeout",
            r"NCCL (?:ERROR|error)|nccl(?:System|Remote|Internal|UnhandledCuda)Error|unhandled (?:cuda|system) error",
            r"CUDA error|CUDA_ERROR_|cudaError|device-side assert|uncorrectable ECC|Xid \(|HIP error|XLA:\w* error|XlaRuntimeError",
            r"(?:^|[\s:)])Killed(?:$|\s)|[Oo]ut of memory|oom[-_]kill|Cannot allocate memory|No space left on device|Stale file handle",
            r"slurmstepd: error|srun: error|\*\*\* (?:STEP|JOB) |DUE TO (?:TIME LIMIT|PREEMPTION|NODE FAILURE)",
            r"PBS: job killed|TERM_[A-Z]+LIMIT\b|TERM_PREEMPT\b|PMIX? ERROR|mpirun noticed",
            r"exitcode\s*:\s*-?[1-9]|Signal \d+ \(SIG[A-Z]+\) received by PID|ChildFailedError|Sending process \d+ closing signal",
            r"Connection (?:reset|closed) by peer|Connection refused|Broken pipe",
            r"(?:^|\]:)\[?E\d{4} \d\d:\d\d|\[[Ee]rror\]|\bERROR\b|\bFATAL\b|\bCRITICAL\b",
        ),
    ),
)
_PATTERNS = tuple((severity, re.compile("|".join(words))) for severity, words in _WORDS)
_TRACEBACK = re.compile(r'^(?:\[rank\d+\]:\s?)?(?:Traceback \(most recent call last\)|\s+File ".*", line \d+|\s+\^+\s*$)')


def severity_of(line: str) -> Severity | None:
    """How bad a line is, None for one that is not worth sending."""
    if _TRACEBACK.match(line):
        return None
    return next((severity for severity, pattern in _PATTERNS if pattern.search(line)), None)


def decode_line(raw: bytes) -> str:
    """Text of one line as a terminal would leave it: the last overwrite of a progress bar; bad bytes as `\\xNN` escapes."""
    raw = raw.rstrip(b"\r\n")
    shown = raw.rpartition(b"\r")[2] or raw
    cut = len(shown) - LONGEST_LINE
    text = shown[:LONGEST_LINE].decode("utf-8", "backslashreplace")
    return f"{text} … [{cut} bytes cut]" if cut > 0 else text


class RateLimit:
    """A token bucket; counts what it refuses."""

    def __init__(self, per_second: float, burst: int) -> None:
        self._per_second = per_second
        self._burst = float(burst)
        self._tokens = float(burst)
        self._last_s: float | None = None
        self.refused = 0

    def allow(self, now_s: float) -> bool:
        """Take one token at a time given by any clock that does not go back."""
        if self._last_s is not None:
            self._tokens = min(self._burst, self._tokens + (now_s - self._last_s) * self._per_second)
        self._last_s = now_s
        if self._tokens < 1:
            self.refused += 1
            return False
        self._tokens -= 1
        return True
