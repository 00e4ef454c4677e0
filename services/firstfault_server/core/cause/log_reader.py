"""Reads the lines of one log, once and in bounded memory, into what they say: exceptions, telling lines, exits, progress.

The streams of several ranks in one file are told apart by their prefixes; a line without any belongs to the file's own stream.
"""

import re
from collections import deque
from typing import Final

import msgspec

from firstfault.stack import Frame
from firstfault_server.core import model
from firstfault_server.core.cause.speaker import speaker
from firstfault_server.core.cause.text import TextReader, TextReading
from firstfault_server.core.grouping.crash import Crash
from firstfault_server.core.grouping.native import MOST_NATIVE, native_frame
from firstfault_server.core.grouping.parse import CrashParser
from firstfault_server.core.grouping.prefix import Prefixed, Prefixes
from firstfault_server.core.grouping.shapes import HEADER

MOST_SEEN: Final = 4000
"""Observations kept of one log; later ones are counted only."""
MOST_ALIKE: Final = 8
"""Observations kept per stream and pattern."""
MOST_STREAMS: Final = 20_000
_EPOCH_NS: Final = 10**17
"""Times below are since midnight or boot: they do not compare between logs."""
_BETWEEN: Final = 8
"""Lines between a telling line and the native stack below it, or inside of that stack."""
_REMEMBERED: Final = 20_000
_DIGITS: Final = b"0123456789"
_WARNING: Final = re.compile(r"\b[A-Z][A-Za-z]{1,40}Warning: |\bNCCL INFO\b")
"""What Python warns of has not happened, and what NCCL tells for information is no failure."""
_PROGRESS: Final = re.compile(
    r"(?:\b(?:global[_ ]?step|steps?|iter(?:ation)?s?|epochs?|batch)\b['\"]?[\s:=/#\[(]{0,4}(?P<named>\d{1,9})"
    r"|^\s{0,4}\d{1,3}%\|[^|]{0,200}\| {0,2}(?P<bar>\d{1,9})/)"
)
_STEP: Final = re.compile(r"\b(?:global[_ ]?)?(?:step|iter(?:ation)?)s?\b['\"]?[\s:=/#\[(]{0,4}(?P<step>\d{1,9})")
_RESTART: Final = re.compile(
    r"restart(?:ing|ed)? (?:the )?(?:worker group|workers|training|attempt|job|run)|(?:attempt|restart)[ #:=]{1,3}\d{1,5} (?:of|/|start)|"
    r"\bstart(?:ing)? attempt|resuming (?:training )?from (?:checkpoint|step|iteration)"
    r"|\d{1,5} restarts? left|requeu(?:ed|eing)|will restart worker group"
)
_TABLE: Final = re.compile(r"\s{0,8}(?P<key>rank|exitcode|host|time|traceback|error_file)\s{0,12}: (?P<value>[^\n]{0,300})")


class Seen(msgspec.Struct, kw_only=True):
    """One thing a log says."""

    reading: TextReading
    text: str
    """The line, or `Type: message` of an exception."""
    line: int
    """Where it begins."""
    last_line: int
    """Where it is named."""
    order: int
    rank: int | None = None
    node: str = ""
    stream: str = ""
    time_ns: int | None = None
    crash: Crash | None = None
    native: list[Frame] = []
    """Frames of the native stack below it, innermost first."""
    count: int = 1
    step: int | None = None
    """Last step, iteration or epoch the log named before it."""
    attempt: int = 0
    """How often the job had begun again before this line."""
    survived: int = 0
    """Line of the training progress that followed it; 0: none did."""

    @property
    def ended(self) -> bool:
        """An exception that nothing says was ignored."""
        return self.crash is not None and not self.crash.ignored


class LogSummary(msgspec.Struct, kw_only=True):
    """What one log says."""

    source: str
    rank: int | None = None
    """Of the file itself, by its name."""
    seen: list[Seen] = []
    ranks: list[int] = []
    """Ranks that any line names as its speaker."""
    lines: int = 0
    timed: bool = False
    """Lines carry times that compare between files."""
    kernel: bool = False
    """It holds kernel lines."""
    dropped: int = 0
    """Telling lines beyond what is kept, and exceptions after that."""
    attempts: int = 1


class LogReader:
    """Push reader: `feed` each line, then `close`."""

    def __init__(self, reader: TextReader, source: str, *, rank: int | None = None, labelled: bool = False) -> None:
        self._reader = reader
        self._prefixes = Prefixes(labelled)
        self._summary = LogSummary(source=source, rank=rank)
        self._parsers: dict[str, CrashParser] = {}
        self._frames: dict[tuple[str, str, str], Frame] = {}
        self._where: dict[str, Prefixed] = {}
        self._kept: dict[int, tuple[Seen, tuple[str, str]]] = {}
        """Observations by order, each with the key under which later ones like it are counted."""
        self._survived: deque[Seen] = deque()
        """What may be forgotten when there is no room, the first survived first."""
        self._full = False
        """Nothing more can be kept before training goes on: exceptions are counted, and only lines are read."""
        self._pending: list[Seen] = []
        """Observations since the last progress or restart."""
        self._order = 0
        self._alike: dict[tuple[str, str], Seen] = {}
        self._silent: set[bytes] = set()
        self._ranks: set[int] = set()
        self._time: Prefixed | None = None
        """The newest line with a time."""
        self._identities: dict[tuple[str, tuple[tuple[str, str], ...]], str] = {}
        """Type and places of an exception -> its fingerprint, where the message has no part in it."""
        self._crashes: dict[tuple[str, bytes, tuple[tuple[str, str], ...]], TextReading] = {}
        self._attempt = 0
        self._busy = 0
        self._failed_at: int | None = None
        self._failed_stream = ""
        self._ended = False
        self._progress: list[int] = []
        self._table: dict[str, str] = {}
        self._native: dict[str, tuple[Seen, int]] = {}
        """Stream -> the line above a native stack that may follow, and how many other lines have come since."""
        self._step_line = ""
        """Newest line that names a step; read only when something failed."""

    def feed(self, raw: str, number: int) -> None:
        """Take one line, without its line end."""
        self._summary.lines = number
        lowered = raw.lower()
        if "step" in lowered or "iter" in lowered:
            self._step_line = lowered
        if not self._busy and not _structural(lowered) and not self._reader.matcher.may_match(lowered):
            if self._failed_at is not None:
                self._after_failure(raw, number)
            return
        if self._full and self._skimmed(lowered):
            return
        line = self._prefixes.split(raw)
        stream = self._stream(line)
        if line.timed:
            self._time = line
        if self._full:
            self._skim(line, stream, number)
            return
        self._body(line, line.body, stream, number)
        for more in line.more:
            self._body(line, more, stream, number)
        if line.more:
            self._end(stream)
        self._stop_parsing_when_full()

    def _stop_parsing_when_full(self) -> None:
        if not self._full or not (self._busy or self._parsers):
            return
        for stream, parser in list(self._parsers.items()):
            begun, before = parser.reading, self._summary.dropped
            self._end(stream)
            if begun and self._summary.dropped == before:
                self._summary.dropped += 1
        self._native.clear()
        self._busy = 0

    def _skimmed(self, lowered: str) -> bool:
        """Whether the line is a frame, which tells nothing where exceptions are only counted."""
        at = lowered.find('file "')
        return at > 1 and lowered[at - 2 : at] == "  " and '", line ' in lowered

    def _skim(self, line: Prefixed, stream: str, number: int) -> None:
        """Take a line while exceptions are only counted."""
        for body in (line.body, *line.more):
            if HEADER in body:
                self._summary.dropped += 1
                self._failed(number, stream, ended=False)
            else:
                self._line(line, body, stream, number)

    def close(self) -> LogSummary:
        """The log is over."""
        for stream in list(self._parsers):
            self._end(stream)
        self._summary.seen = [seen for seen, _ in self._kept.values()]
        self._summary.seen.sort(key=lambda seen: (seen.line, seen.order))
        self._summary.ranks = sorted(self._ranks)
        self._summary.attempts = self._attempt + 1
        return self._summary

    def _stream(self, line: Prefixed) -> str:
        if line.rank is not None:
            self._ranks.add(line.rank)
        name = f"r{line.rank}" if line.rank is not None else line.process
        if name not in self._where and len(self._where) >= MOST_STREAMS:
            return ""
        self._where[name] = line
        return name

    def _body(self, line: Prefixed, body: str, stream: str, number: int) -> None:
        if stream in self._native and self._native_line(stream, body):
            return
        parser = self._parsers.get(stream)
        if parser is None:
            parser = self._parsers[stream] = CrashParser(self._frames)
        was = parser.busy
        for crash in parser.feed(body, number, line.marked):
            self._crash(crash, line, stream)
        if parser.busy != was:
            self._busy += 1 if parser.busy else -1
        if parser.reading:
            return
        self._line(line, body, stream, number)

    def _native_line(self, stream: str, body: str) -> bool:
        """Whether the line is a frame of the native stack that the stream prints."""
        seen, others = self._native[stream]
        found = native_frame(body)
        if found is not None:
            if len(seen.native) < MOST_NATIVE:
                seen.native.append(found)
            self._native[stream] = (seen, 0)
            return True
        if others >= _BETWEEN:
            del self._native[stream]
            self._busy -= 1
        else:
            self._native[stream] = (seen, others + 1)
        return False

    def _end(self, stream: str) -> None:
        parser = self._parsers.pop(stream, None)
        if parser is None:
            return
        if parser.busy:
            self._busy -= 1
        for crash in parser.close():
            self._crash(crash, self._where.get(stream) or Prefixed(body=""), stream)

    def _crash(self, crash: Crash, line: Prefixed, stream: str) -> None:
        places = tuple((frame.module, frame.function) for frame in crash.frames)
        identity = self._identities.get((crash.type, places)) if places and not crash.chain else None
        if identity is not None and self._counted(crash, identity, line, stream):
            return
        key = (crash.type, _shape(crash.message + (crash.frames[-1].source or "" if crash.frames else "")), places)
        known = self._crashes.get(key) if not crash.chain else None
        reading = known or self._reader.exception(crash.type, crash.message, frames=crash.frames, chain=crash.chain)
        if known is None and not crash.chain and len(self._crashes) < _REMEMBERED:
            self._crashes[key] = reading
            if places and reading.fingerprint.stack_hash:
                self._identities[crash.type, places] = reading.fingerprint.id
        text = f"{crash.type}: {crash.message}" if crash.message else crash.type
        self._keep(reading, text, crash.first_line, crash.last_line, line, stream, crash, reading.fingerprint.id)
        if reading.symptom and not crash.ignored:
            # What reached the top of the program ended the process: only a restart goes on from there.
            ended = bool(crash.frames) and crash.frames[0].function == "<module>"
            self._failed(crash.last_line, stream, ended)

    def _counted(self, crash: Crash, identity: str, line: Prefixed, stream: str) -> bool:
        """Whether the exception is one more of those that a kept one stands for: the same stack, whatever its message says."""
        if "rank" in crash.message or "Rank" in crash.message or "rocess" in crash.message:
            return False
        known = self._alike.get((f"r{line.rank}" if line.rank is not None else stream, f"{self._attempt}:{identity}"))
        if known is None or known.survived:
            return False
        known.count += 1
        if known.reading.symptom and not crash.ignored:
            self._failed(crash.last_line, stream, ended=crash.frames[0].function == "<module>")
        return True

    def _line(self, line: Prefixed, body: str, stream: str, number: int) -> None:
        if not body or HEADER in body:
            return
        if (row := _TABLE.match(body)) is not None:
            self._row(row, line, number)
        if self._failed_at is not None and _begins_again(body):
            self._again(number)
        key = _shape(body)
        if key in self._silent:
            if self._failed_at is not None:
                self._after_failure(line.raw or body, number)
            return
        reading = self._reader.glance(body)
        if reading.pattern == "root-cause":
            self._table = {"root": "yes"}
        if not reading.pattern or (reading.role == "initiating" and _WARNING.search(body[:400]) is not None):
            if len(self._silent) < _REMEMBERED:
                self._silent.add(key)
            if self._failed_at is not None:
                self._after_failure(line.raw or body, number)
            return
        if "kernel" in body or "NVRM" in body or reading.pattern in ("xid", "sxid", "kernel-oom-kill"):
            self._summary.kernel = True
        self._keep(reading, body, number, number, line, stream, None, reading.pattern)
        if reading.symptom and reading.role in ("initiating", "waiting", "cascade"):
            self._failed(number, stream, ended=False)

    def _keep(
        self, reading: TextReading, text: str, first: int, last: int, line: Prefixed, stream: str, crash: Crash | None, alike: str
    ) -> None:
        rank = speaker(line.rank, reading.facts, text, exception=crash is not None)
        if rank is not None:
            self._ranks.add(rank)
        key = (f"r{rank}" if rank is not None else stream, f"{self._attempt}:{alike}")
        known = self._alike.get(key)
        if known is not None:
            known.count += 1
            if known.survived:
                # Survived before and here again: it counts from now on.
                known.survived, known.line, known.last_line, known.step = 0, first, last, self._step()
                self._pending.append(known)
                return
            if crash is not None or known.count > MOST_ALIKE:
                self._summary.dropped += crash is None
                return
        if len(self._kept) >= MOST_SEEN and not self._make_room():
            self._summary.dropped += 1
            self._full = True
            return
        when = line if line.timed else self._time
        time_ns = when.time_ns if when is not None else None
        self._summary.timed = self._summary.timed or (time_ns is not None and time_ns > _EPOCH_NS)
        seen = Seen(
            reading=reading,
            text=text[:4000],
            line=first,
            last_line=last,
            order=self._order,
            rank=rank,
            node=reading.facts.get("node", line.node),
            stream=stream,
            time_ns=time_ns,
            crash=crash,
            step=self._step(),
            attempt=self._attempt,
        )
        self._order += 1
        self._alike.setdefault(key, seen)
        self._kept[seen.order] = (seen, key)
        self._pending.append(seen)
        if reading.symptom and reading.role in ("initiating", "waiting"):
            if stream not in self._native:
                self._busy += 1
            self._native[stream] = (seen, 0)

    def _step(self) -> int | None:
        found = _STEP.search(self._step_line[:1000])
        return int(found["step"]) if found is not None else None

    def _row(self, row: "re.Match[str]", line: Prefixed, number: int) -> None:
        """A row of torchrun's table of failed workers."""
        key, value = row["key"], row["value"].strip()
        self._table[key] = value
        if key == "exitcode" and (rank := re.match(r"\d{1,6}", self._table.get("rank", ""))) is not None:
            code = re.match(r"-?\d{1,5}", value)
            if code is None:
                return
            pid = re.search(r"pid: (\d{1,9})", value)
            facts = {"exit": code[0], "rank": rank[0], "pid": pid[1] if pid else "", "root": self._table.get("root", "")}
            reading = self._reader.exit(int(code[0]), facts)
            placed = Prefixed(body="", rank=int(rank[0]), node=self._table.get("host", ""), stamp=line.stamp, exact_ns=line.exact_ns)
            text = f"rank {rank[0]} ended with exit code {code[0]}"
            self._keep(reading, text, number, number, placed, f"r{rank[0]}", None, "exit")
            self._table = {}

    def _failed(self, number: int, stream: str, ended: bool) -> None:
        self._failed_at, self._progress = number, []
        self._failed_stream = stream
        self._ended = ended

    def _again(self, number: int) -> None:
        """The job begins again: what follows is another attempt."""
        if self._kept and self._failed_at is not None and number > self._failed_at:
            for stream in list(self._parsers):
                self._end(stream)
            self._attempt += 1
            self._failed_at = None
            self._pending = []

    def _after_failure(self, text: str, number: int) -> None:
        """Training that goes on after an error: the error was survived, or the job was started again."""
        lowered = text[:1000].lower()
        if self._ended or self._failed_at is None or number <= self._failed_at or not _names_progress(lowered):
            return
        found = _PROGRESS.search(lowered)
        if found is None or (self._failed_stream and self._stream(self._prefixes.split(text)) != self._failed_stream):
            return
        self._progress.append(int(found["named"] or found["bar"]))
        if len(self._progress) >= 3 and self._progress[-1] > self._progress[-3]:
            for seen in self._pending:
                seen.survived = number
            self._survived += self._pending
            self._full = self._full and not self._survived
            self._pending = []
            self._failed_at = None

    def _make_room(self) -> bool:
        """Forget an observation that training survived; False when there is none."""
        while self._survived:
            seen = self._survived.popleft()
            # It may have come again since, or be gone already.
            if seen.survived and (kept := self._kept.pop(seen.order, None)) is not None:
                if self._alike.get(kept[1]) is seen:
                    del self._alike[kept[1]]
                return True
        return False


def _shape(text: str) -> bytes:
    """The text without digits; on bytes, because deleting characters from a string costs ten times as much."""
    return text.encode("utf-8", "surrogatepass").translate(None, _DIGITS)


def _names_progress(lowered: str) -> bool:
    # Spelled out, as below: it is asked of every line after a failure.
    return "step" in lowered or "iter" in lowered or "epoch" in lowered or "batch" in lowered or "%|" in lowered


def _begins_again(body: str) -> bool:
    lowered = body[:1000].lower()
    return ("start" in lowered or "resuming" in lowered or "requeu" in lowered) and _RESTART.search(lowered) is not None


def _structural(lowered: str) -> bool:
    """Whether a lower-cased line may matter to the parser or to the course of the job, whatever the patterns say.

    Spelled out because it is asked of every line.
    """
    return (
        "error" in lowered
        or 'file "' in lowered
        or "exception" in lowered
        or "traceback (" in lowered
        or "interrupt" in lowered
        or "died" in lowered
        or "restart" in lowered
        or "resum" in lowered
        or "requeu" in lowered
        or "exitcode" in lowered
        or "rank  " in lowered
        or "host  " in lowered
    )


def leading(role: model.Role) -> int:
    """Order of roles when one text shows several: own faults before reactions before teardown."""
    return {"initiating": 0, "unknown": 1, "waiting": 2, "cascade": 3, "teardown": 4}[role]
