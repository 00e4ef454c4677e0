"""`FileLog`: the `Log` port over segment files in one folder."""

import asyncio
import fcntl
import logging
import os
import threading
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

import msgspec

from firstfault_server.adapters.filelog.segments import Position, decode_entry, frame, frames, numbers, path_of, scan, sync_folder
from firstfault_server.adapters.filelog.writer import Waiting, Writer
from firstfault_server.ports import LogEntry, StoreUnavailable

SEGMENT_BYTES: Final = 64 << 20
GROUP_INTERVAL_S: Final = 0.005

_logger = logging.getLogger(__name__)


class LogCounts(msgspec.Struct, kw_only=True):
    """What happened to the log since it was opened."""

    appended: int = 0
    bytes_written: int = 0
    groups: int = 0
    failed_groups: int = 0
    torn_bytes: int = 0
    """Bytes cut off at open: a write that a crash interrupted, never acknowledged."""
    corrupt_frames: int = 0
    """Frames that a reader found damaged and passed over."""


class FileLog:
    """Append-only log. One process per folder; readers see durable entries only."""

    def __init__(
        self,
        folder: Path,
        *,
        segment_bytes: int = SEGMENT_BYTES,
        group_interval_s: float = GROUP_INTERVAL_S,
        observe: Callable[[float], None] | None = None,
        beyond: str | None = None,
    ) -> None:
        """Open, mending a torn tail. Raises StoreUnavailable if another process has the folder.

        `observe` gets the seconds of each group's write. `beyond` is the position readers have reached: should the log end
        before it (files were lost), writing goes on behind it, so that no position names two records.
        """
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._lock = _lock(folder)
        self.counts = LogCounts()
        self._observe = observe
        self._readers: dict[int, int] = {}
        self._readers_lock = threading.Lock()
        self._closed = False
        start = self._mend()
        if beyond is not None and Position.parse(beyond) > start:
            _logger.warning("the log in %s ends at %s, before %s where reading had come to: records were lost", folder, start, beyond)
            start = Position(Position.parse(beyond).segment + 1, 0)
        self._oldest = min(numbers(folder), default=start.segment)
        self._writer = Writer(folder, start, segment_bytes, group_interval_s, self._count_group)

    @property
    def newest_received_ns(self) -> int:
        """Receive time of the newest entry found at open, 0 for an empty log: receive time must not go back behind it."""
        return self._newest_ns

    async def append(self, entries: Sequence[LogEntry]) -> None:
        """Return when the entries are durable. Raises StorageFull, StoreUnavailable."""
        if not entries:
            return
        loop = asyncio.get_running_loop()
        done = loop.create_future()
        data = frame(entries[0]) if len(entries) == 1 else b"".join([frame(e) for e in entries])
        self._writer.submit(Waiting(data, len(entries), done, loop))
        await done

    def read(self, after: str | None, limit_bytes: int) -> list[tuple[str, LogEntry]]:
        """Entries after a position (None: from the oldest kept), about `limit_bytes` of them; [] when there are none yet."""
        at = self._place(after)
        while True:
            end = self._writer.durable
            limit = end.offset if at.segment == end.segment else path_of(self._folder, at.segment).stat().st_size
            if at.offset < limit:
                found, at = self._read_segment(at, limit, limit_bytes)
                if found:
                    return found
                continue
            if at.segment >= end.segment:
                return []
            at = Position(min(n for n in numbers(self._folder) if n > at.segment), 0)

    def wait(self, after: str | None, timeout_s: float) -> bool:
        """Block until something lies after the position; False on time-out or when the log was closed."""
        at = Position.parse(after) if after else Position(0, 0)
        with self._writer.grown:
            self._writer.grown.wait_for(lambda: self._closed or self._writer.durable > at, timeout_s)
            return self._writer.durable > at

    def prune(self, before: str) -> None:
        """Remove whole segments that end at or before the position; the one being written stays."""
        self._remove(Position.parse(before), 0)

    def keep(self, largest_bytes: int, before: str) -> None:
        """Remove the oldest segments until at most `largest_bytes` remain, but nothing after the position."""
        self._remove(Position.parse(before), largest_bytes)

    def size_bytes(self) -> int:
        """Bytes on disk."""
        return sum(path_of(self._folder, n).stat().st_size for n in numbers(self._folder))

    def behind_bytes(self, after: str | None) -> int:
        """How many durable bytes lie after a position: what a reader has still to read."""
        at, end = self._place(after), self._writer.durable
        if at.segment == end.segment:
            return max(0, end.offset - at.offset)
        between = (path_of(self._folder, n).stat().st_size for n in numbers(self._folder) if at.segment <= n < end.segment)
        return sum(between) - at.offset + end.offset

    def close(self) -> None:
        """Write what waits and release the folder; appends after it raise StoreUnavailable."""
        if self._closed:
            return
        self._writer.close()
        with self._writer.grown:
            self._closed = True
            self._writer.grown.notify_all()
        with self._readers_lock:
            for descriptor in self._readers.values():
                os.close(descriptor)
            self._readers.clear()
        os.close(self._lock)

    def _mend(self) -> Position:
        """Cut what a crash left torn at the end; where writing goes on."""
        self._newest_ns = 0
        for number in reversed(numbers(self._folder)):
            path = path_of(self._folder, number)
            found = scan(path)
            if found.sound < found.size:
                self.counts.torn_bytes += found.size - found.sound
                _logger.warning("cut %d torn bytes from the end of %s: a write that was never acknowledged", found.size - found.sound, path)
                with path.open("r+b") as file:
                    file.truncate(found.sound)
                    os.fsync(file.fileno())
            if not self._newest_ns:
                self._newest_ns = found.newest_ns
            if self._newest_ns:
                break
        last = max(numbers(self._folder), default=0)
        path = path_of(self._folder, last)
        return Position(last, path.stat().st_size if path.exists() else 0)

    def _place(self, after: str | None) -> Position:
        """Where reading goes on; a position in a removed segment moves to the oldest one kept."""
        oldest = self._oldest
        at = Position.parse(after) if after else Position(oldest, 0)
        return at if at.segment >= oldest else Position(oldest, 0)

    def _read_segment(self, at: Position, limit: int, limit_bytes: int) -> tuple[list[tuple[str, LogEntry]], Position]:
        descriptor = self._reader(at.segment)
        wanted = min(limit - at.offset, max(limit_bytes, 8))
        chunk = os.pread(descriptor, wanted, at.offset)
        length = int.from_bytes(chunk[:4], "little") + 8
        if wanted < length <= limit - at.offset:
            chunk = os.pread(descriptor, length, at.offset)
        found: list[tuple[str, LogEntry]] = []
        reached = at
        for item in frames(memoryview(chunk)):
            reached = Position(at.segment, at.offset + item.end)
            if item.payload is None:
                self._damaged(reached)
                continue
            found.append((str(reached), decode_entry(item.payload)))
        if reached == at:
            # No whole frame where one must be: the length itself is damaged, and nothing behind it can be told apart.
            reached = Position(at.segment, limit)
            self._damaged(reached)
        return found, reached

    def _damaged(self, at: Position) -> None:
        self.counts.corrupt_frames += 1
        _logger.error("a damaged record of the log in %s that ends at %s was passed over", self._folder, at)

    def _reader(self, segment: int) -> int:
        with self._readers_lock:
            descriptor = self._readers.get(segment)
            if descriptor is None:
                descriptor = self._readers[segment] = os.open(path_of(self._folder, segment), os.O_RDONLY | os.O_CLOEXEC)
            return descriptor

    def _remove(self, before: Position, largest_bytes: int) -> None:
        kept = numbers(self._folder)
        total = self.size_bytes() if largest_bytes else 0
        gone = False
        for number, following in pairwise(kept):
            path = path_of(self._folder, number)
            size = path.stat().st_size
            passed = number < before.segment or (number == before.segment and size <= before.offset)
            if not passed or number >= self._writer.durable.segment or (largest_bytes and total <= largest_bytes):
                break
            self._oldest = following
            with self._readers_lock:
                descriptor = self._readers.pop(number, None)
                if descriptor is not None:
                    os.close(descriptor)
            path.unlink()
            total -= size
            gone = True
        if gone:
            sync_folder(self._folder)

    def _count_group(self, entries: int, size: int, seconds: float) -> None:
        self.counts.groups += 1
        if entries:
            self.counts.appended += entries
            self.counts.bytes_written += size
        else:
            self.counts.failed_groups += 1
        if self._observe is not None:
            self._observe(seconds)


def _lock(folder: Path) -> int:
    descriptor = os.open(folder / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o640)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        raise StoreUnavailable(f"the log in {folder} is in use by another process; one service per data folder") from error
    return descriptor
