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


# First match wins.
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
            r"CUDA error|CUDA_ERROR_|cudaError|device-side assert\b|uncorrectable ECC|Xid \(|HIP error|XLA:\w* error|XlaRuntimeError",
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
# What torch, torchrun, mpirun and srun write before each line of a rank; one space may belong to it or to the line.
_STREAM = re.compile(r"(?:(?:\[\w+\]|\[\d+,\d+\]<std(?:err|out)>|\d+): ?)*")
_FRAME = re.compile(r'\s+File ".*", line \d+')
_HEADER = re.compile(r"Traceback \(most recent call last\):")
_GROUP_HEADER = re.compile(r"\s*\+ Exception Group Traceback \(most recent call last\):")
_GROUP_MARGIN = re.compile(r"\s*(?:\||\+[-+]*-{4})")
_SOURCE = re.compile(r"   |\t|\s*[\^~]+\s*$|  \[Previous line repeated ")
# `torch.cuda.OutOfMemoryError: …`, `socket.timeout: …`; not `slurmstepd: error`, `ERROR: …`, `Killed`.
_EXCEPTION = re.compile(r"(?:[\w<>]+\.)*(?:_*[A-Z]\w*[a-z]\w*|(?<=\.)\w*(?:error|timeout)):(?:\s|$)")
_FOREIGN_LINES = 50
"""Lines of others after which a traceback without a last line counts as given up."""
_MOST_STREAMS = 256


def severity_of(line: str) -> Severity | None:
    """How bad a line is, None for one that is not worth sending."""
    said = line[_stream_end(line) :]
    if _HEADER.match(said) or _FRAME.match(said):
        return None
    return next((severity for severity, pattern in _PATTERNS if pattern.search(line)), None)


def _stream_end(line: str) -> int:
    found = _STREAM.match(line)
    return found.end() if found else 0


class TracebackReader:
    """Tells lines of Python tracebacks from others: the process reports its exceptions itself, with frames.

    A source line of a frame may hold any word that matters elsewhere, and the last line would report the exception twice. Ranks
    that share a file have a traceback each, told apart by what their launcher writes before every line; lines of others
    in between are no part of it.
    """

    def __init__(self) -> None:
        self._open: dict[str, _Traceback] = {}

    def covers(self, line: str) -> bool:
        """Whether the next line of the file is part of a traceback."""
        end = _stream_end(line)
        stream, said = line[:end].rstrip(), line[end:]
        if _GROUP_HEADER.match(said) or _HEADER.match(said) or (_FRAME.match(said) and not _is_native_dump(said)):
            found = self._open.pop(stream, None) or _Traceback()
            found.grouped = found.grouped or bool(_GROUP_HEADER.match(said))
            found.ending = False
            found.foreign = 0
            self._open[stream] = found
            if len(self._open) > _MOST_STREAMS:
                del self._open[next(iter(self._open))]
            return True
        reading = self._open.get(stream)
        if reading is None:
            return False
        covered = reading.covers(said)
        if reading.over:
            del self._open[stream]
        return covered


class _Traceback:
    """A traceback that has begun."""

    def __init__(self) -> None:
        self.grouped = False
        self.ending = False
        """Its last line was there; indented lines may still continue the message."""
        self.foreign = 0
        self.over = False

    def covers(self, said: str) -> bool:
        if (self.grouped and _GROUP_MARGIN.match(said)) or _SOURCE.match(said):
            return True
        if self.ending:
            self.over = True
            return False
        if _EXCEPTION.match(said):
            self.ending = True
            return True
        self.foreign += 1
        self.over = self.foreign > _FOREIGN_LINES
        return False


def _is_native_dump(frame: str) -> bool:
    """A frame as `faulthandler` writes it, whose dump has no last line: `line 3 in f`, without a comma."""
    return re.search(r'", line \d+ in ', frame) is not None


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
