"""The thread that appends: gathers what waits, writes it, syncs once, and only then lets the senders go on."""

import asyncio
import errno
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from firstfault_server.adapters.filelog.segments import Position, path_of, sync_folder
from firstfault_server.ports import StorageFull, StoreUnavailable

FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
LARGEST_GROUP: Final = 32 << 20
"""Bytes written between two syncs at most, so that one group never waits long for another."""


class Waiting(NamedTuple):
    """Frames of one append and the future of the task that waits for them."""

    data: bytes
    entries: int
    done: "asyncio.Future[None]"
    loop: asyncio.AbstractEventLoop


class Writer:
    """Owns the segment that is written; `durable` is what readers may see."""

    def __init__(
        self, folder: Path, start: Position, segment_bytes: int, group_interval_s: float, on_group: Callable[[int, int, float], None]
    ) -> None:
        self._folder, self._segment_bytes, self._interval_s = folder, segment_bytes, group_interval_s
        self._on_group = on_group
        self._waiting: list[Waiting] = []
        self._changed = threading.Condition()
        self._closing = self._idle = False
        self._file = -1
        self.durable = start
        self.grown = threading.Condition()
        """Notified whenever `durable` moves on."""
        self._open(start)
        self._thread = threading.Thread(target=self._run, name="log-writer", daemon=True)
        self._thread.start()

    def submit(self, waiting: Waiting) -> None:
        """Queue frames; the future is resolved when they are durable. Raises StoreUnavailable after close."""
        with self._changed:
            if self._closing:
                raise StoreUnavailable("the log is closed; the service is shutting down")
            self._waiting.append(waiting)
            if self._idle:
                self._idle = False
                self._changed.notify()

    def close(self) -> None:
        """Write what waits, then stop."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join()
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
        with self.grown:
            self.grown.notify_all()

    def _open(self, at: Position) -> None:
        path = path_of(self._folder, at.segment)
        new = not path.exists()
        self._file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o640)
        os.lseek(self._file, at.offset, os.SEEK_SET)
        if new:
            sync_folder(self._folder)

    def _run(self) -> None:
        last = 0.0
        while True:
            with self._changed:
                while not self._waiting and not self._closing:
                    # Senders wake the thread only from here: while a group gathers, a wake-up for each would cost more than writing.
                    self._idle = True
                    self._changed.wait()
                self._idle = False
                if not self._waiting:
                    return
            # A lone sender is served at once; under load the next group gathers until the interval is over.
            pause = last + self._interval_s - time.monotonic()
            if pause > 0 and not self._closing:
                time.sleep(pause)
            with self._changed:
                group = self._take()
            last = time.monotonic()
            error = self._write(group)
            self._release(group, error)
            self._on_group(0 if error else sum(w.entries for w in group), sum(len(w.data) for w in group), time.monotonic() - last)

    def _take(self) -> list[Waiting]:
        total = 0
        for i, waiting in enumerate(self._waiting):
            total += len(waiting.data)
            if total > LARGEST_GROUP and i:
                group, self._waiting = self._waiting[:i], self._waiting[i:]
                return group
        group, self._waiting = self._waiting, []
        return group

    def _write(self, group: list[Waiting]) -> StoreUnavailable | None:
        data = b"".join(w.data for w in group)
        at = self.durable
        try:
            if self._file < 0 or at.offset >= self._segment_bytes:
                at = self._next(at)
            view = memoryview(data)
            while view:
                view = view[os.write(self._file, view) :]
            os.fdatasync(self._file)
        except OSError as error:
            return self._undo(error)
        with self.grown:
            self.durable = Position(at.segment, at.offset + len(data))
            self.grown.notify_all()
        return None

    def _next(self, at: Position) -> Position:
        start = Position(at.segment + 1, 0)
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
        self._open(start)
        self.durable = start
        return start

    def _undo(self, error: OSError) -> StoreUnavailable:
        """Forget the group as if it had never been there; go on in a new segment if even that fails."""
        if self._file >= 0:
            try:
                os.ftruncate(self._file, self.durable.offset)
                os.lseek(self._file, self.durable.offset, os.SEEK_SET)
                if error.errno not in FULL:
                    # After a failed sync the kernel may have dropped pages, so this file is not written to again.
                    raise error
            except OSError:
                os.close(self._file)
                self._file = -1
        if error.errno in FULL:
            return StorageFull(f"no space left for the log in {self._folder}; free space or shorten the retention")
        return StoreUnavailable(f"the log in {self._folder} cannot be written: {error.strerror or error}")

    def _release(self, group: list[Waiting], error: StoreUnavailable | None) -> None:
        by_loop: dict[asyncio.AbstractEventLoop, list[asyncio.Future[None]]] = {}
        for waiting in group:
            by_loop.setdefault(waiting.loop, []).append(waiting.done)
        for loop, futures in by_loop.items():
            try:
                loop.call_soon_threadsafe(_resolve, futures, error)
            except RuntimeError:
                # The sender's loop is gone, and nobody waits for the answer any more.
                continue


def _resolve(futures: "list[asyncio.Future[None]]", error: StoreUnavailable | None) -> None:
    for future in futures:
        if future.done():
            continue
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)
