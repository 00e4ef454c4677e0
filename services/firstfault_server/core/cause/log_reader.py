"""Reads the lines of one log, once and in bounded memory, into what they say: exceptions, telling lines, exits, progress.

The streams of several ranks in one file are told apart by their prefixes; a line without any belongs to the file's own stream.
"""

import re
from typing import Final

from firstfault.stack import Frame
from firstfault_server.core.cause.course import Course
from firstfault_server.core.cause.failed_workers import FailedWorkers
from firstfault_server.core.cause.kept import Kept, Key
from firstfault_server.core.cause.log_summary import LogSummary, Seen
from firstfault_server.core.cause.native_stacks import NativeStacks
from firstfault_server.core.cause.speaker import speaker
from firstfault_server.core.cause.text import TextReader, TextReading
from firstfault_server.core.grouping.crash import Crash
from firstfault_server.core.grouping.parse import CrashParser
from firstfault_server.core.grouping.prefix import Prefixed, Prefixes
from firstfault_server.core.grouping.shapes import HEADER

MOST_STREAMS: Final = 20_000
_EPOCH_NS: Final = 10**17
"""Times below are since midnight or boot: they do not compare between logs."""
_REMEMBERED: Final = 20_000
_DIGITS: Final = b"0123456789"
_WARNING: Final = re.compile(r"\b[A-Z][A-Za-z]{1,40}Warning: |\bNCCL INFO\b")
"""What Python warns of has not happened, and what NCCL tells for information is no failure."""


class LogReader:
    """Push reader: `feed` each line, then `close`."""

    def __init__(self, reader: TextReader, source: str, *, rank: int | None = None, labelled: bool = False) -> None:
        self._reader = reader
        self._prefixes = Prefixes(labelled)
        self._summary = LogSummary(source=source, rank=rank)
        self._parsers: dict[str, CrashParser] = {}
        self._frames: dict[tuple[str, str, str], Frame] = {}
        self._where: dict[str, Prefixed] = {}
        self._course = Course()
        self._kept = Kept(self._summary, self._course)
        self._workers = FailedWorkers()
        self._silent: set[bytes] = set()
        self._ranks: set[int] = set()
        self._time: Prefixed | None = None
        """The newest line with a time."""
        self._identities: dict[tuple[str, tuple[tuple[str, str], ...]], str] = {}
        """Type and places of an exception -> its fingerprint, where the message has no part in it."""
        self._crashes: dict[tuple[str, bytes, tuple[tuple[str, str], ...]], TextReading] = {}
        self._busy = 0
        """Parsers for which the next line may matter whatever it says."""
        self._native = NativeStacks()

    def feed(self, raw: str, number: int) -> None:
        """Take one line, without its line end."""
        self._summary.lines = number
        lowered = raw.lower()
        self._course.note(lowered)
        if not self._busy and not self._native and not _structural(lowered) and not self._reader.matcher.may_match(lowered):
            if self._course.failed_at is not None:
                self._after_failure(raw, number)
            return
        if self._kept.full and self._skimmed(lowered):
            return
        line = self._prefixes.split(raw)
        stream = self._stream(line)
        if line.timed:
            self._time = line
        if self._kept.full:
            self._skim(line, stream, number)
            return
        self._body(line, line.body, stream, number)
        for more in line.more:
            self._body(line, more, stream, number)
        if line.more:
            self._end(stream)
        self._stop_parsing_when_full()

    def _stop_parsing_when_full(self) -> None:
        if not self._kept.full or not (self._native or self._parsers):
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
                self._course.failed(number, stream, ended=False)
            else:
                self._line(line, body, stream, number)

    def close(self) -> LogSummary:
        """The log is over."""
        for stream in list(self._parsers):
            self._end(stream)
        self._summary.seen = self._kept.seen()
        self._summary.ranks = sorted(self._ranks)
        self._summary.attempts = self._course.attempt + 1
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
        if self._native.takes(stream, body):
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
            self._course.failed(crash.last_line, stream, ended)

    def _counted(self, crash: Crash, identity: str, line: Prefixed, stream: str) -> bool:
        """Whether the exception is one more of those that a kept one stands for: the same stack, whatever its message says."""
        if "rank" in crash.message or "Rank" in crash.message or "rocess" in crash.message:
            return False
        known = self._kept.counted(self._key(line.rank, stream, identity))
        if known is None:
            return False
        if known.reading.symptom and not crash.ignored:
            self._course.failed(crash.last_line, stream, ended=crash.frames[0].function == "<module>")
        return True

    def _line(self, line: Prefixed, body: str, stream: str, number: int) -> None:
        if not body or HEADER in body:
            return
        if (worker := self._workers.feed(body)) is not None:
            self._worker(worker, line, number)
        if self._course.begins_again(body, number):
            self._again()
        key = _shape(body)
        if key in self._silent:
            if self._course.failed_at is not None:
                self._after_failure(line.raw or body, number)
            return
        reading = self._reader.glance(body)
        if reading.pattern == "root-cause":
            self._workers.root_cause()
        if not reading.pattern or (reading.role == "initiating" and _WARNING.search(body[:400]) is not None):
            if len(self._silent) < _REMEMBERED:
                self._silent.add(key)
            if self._course.failed_at is not None:
                self._after_failure(line.raw or body, number)
            return
        if "kernel" in body or "NVRM" in body or reading.pattern in ("xid", "sxid", "kernel-oom-kill"):
            self._summary.kernel = True
        self._keep(reading, body, number, number, line, stream, None, reading.pattern)
        if reading.symptom and reading.role in ("initiating", "waiting", "cascade"):
            self._course.failed(number, stream, ended=False)

    def _keep(
        self, reading: TextReading, text: str, first: int, last: int, line: Prefixed, stream: str, crash: Crash | None, alike: str
    ) -> None:
        rank = speaker(line.rank, reading.facts, text, exception=crash is not None)
        if rank is not None:
            self._ranks.add(rank)
        key = self._key(rank, stream, alike)
        if self._kept.repeats(key, first, last, exception=crash is not None) or not self._kept.has_room():
            return
        when = line if line.timed else self._time
        time_ns = when.time_ns if when is not None else None
        self._summary.timed = self._summary.timed or (time_ns is not None and time_ns > _EPOCH_NS)
        seen = Seen(
            reading=reading,
            text=text[:4000],
            line=first,
            last_line=last,
            rank=rank,
            node=reading.facts.get("node", line.node),
            stream=stream,
            time_ns=time_ns,
            crash=crash,
            step=self._course.step(),
            attempt=self._course.attempt,
        )
        self._kept.add(key, seen)
        if reading.symptom and reading.role in ("initiating", "waiting"):
            self._native.below(stream, seen)

    def _key(self, rank: int | None, stream: str, alike: str) -> Key:
        return (f"r{rank}" if rank is not None else stream, f"{self._course.attempt}:{alike}")

    def _worker(self, facts: dict[str, str], line: Prefixed, number: int) -> None:
        """A worker of torchrun's table."""
        host, rank, code = facts.pop("host"), int(facts["rank"]), int(facts["exit"])
        placed = Prefixed(body="", rank=rank, node=host, stamp=line.stamp, exact_ns=line.exact_ns)
        text = f"rank {rank} ended with exit code {code}"
        self._keep(self._reader.exit(code, facts), text, number, number, placed, f"r{rank}", None, "exit")

    def _again(self) -> None:
        """The job begins again, if anything of it was kept."""
        if self._kept:
            for stream in list(self._parsers):
                self._end(stream)
            self._course.new_attempt()
            self._kept.new_attempt()

    def _after_failure(self, text: str, number: int) -> None:
        """Training that goes on after an error: the error was survived, or the job was started again."""
        step, failed = self._course.progress(text, number), self._course.failed_stream
        if step is None or (failed and self._stream(self._prefixes.split(text)) != failed):
            return
        if self._course.goes_on(step):
            self._kept.survive(number)


def _shape(text: str) -> bytes:
    """The text without digits; on bytes, because deleting characters from a string costs ten times as much."""
    return text.encode("utf-8", "surrogatepass").translate(None, _DIGITS)


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
