"""Writes rollups beside detection: incidents never wait for the engine that holds the numbers.

A commit waits a moment for the rows of its stretch of the log. What is not written by then is kept in the commit itself, under the
stage name `host`, and forgotten in a later one: nothing is lost, the position moves on, and a repeated write is the same write.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec

from firstfault_server.core import model
from firstfault_server.ports import StoreUnavailable

HOST: Final = "host"
PREFIX: Final = "rollups "
MOST_ROWS: Final = 300_000
"""Rows that may wait; with more, detection itself waits for the store."""
FIRST_RETRY_S, LAST_RETRY_S = 0.1, 5.0
END_S: Final = 2.0

_logger = logging.getLogger(__name__)


class _Chunk:
    """Rows of one commit."""

    __slots__ = ("done", "key", "rows")

    def __init__(self, rows: list[model.Rollup], key: str = "") -> None:
        self.rows, self.key = rows, key
        self.done = threading.Event()


class RollupWriter:
    """A thread that writes chunks of rows in order; the host calls `settle` once a commit."""

    def __init__(self, write: Callable[[Sequence[model.Rollup]], None], retried: Callable[[], None]) -> None:
        self._write, self._retried = write, retried
        self._open: list[_Chunk] = []
        self._queue: list[_Chunk] = []
        self._changed = threading.Condition()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rollups", daemon=True)
        self._encode = msgspec.msgpack.Encoder().encode
        self._decode = msgspec.msgpack.Decoder(list[model.Rollup]).decode
        self.unusable: list[tuple[model.Rollup, Exception]] = []
        """Rows that the store chokes on; taken away by the host."""
        self.problem: str | None = None
        """Why rows wait, None when they do not."""

    @property
    def waiting_rows(self) -> int:
        """Rows not written yet."""
        return sum(len(chunk.rows) for chunk in self._open if not chunk.done.is_set())

    def restore(self, kept: Iterable[tuple[str, bytes]]) -> None:
        """Take up chunks that earlier commits kept, by key."""
        for key, data in kept:
            if key.startswith(PREFIX):
                self._submit(_Chunk(self._decode(data), key))

    def settle(self, rows: list[model.Rollup], position: str, patience_s: float) -> dict[tuple[str, str], bytes | None]:
        """Queue rows and wait a moment; what the commit has to keep, and what it may forget."""
        if rows:
            self._submit(_Chunk(rows))
        give_up = time.monotonic() + patience_s
        changes: dict[tuple[str, str], bytes | None] = {}
        still: list[_Chunk] = []
        for chunk in self._open:
            if chunk.done.wait(max(0.0, give_up - time.monotonic())):
                if chunk.key:
                    changes[HOST, chunk.key] = None
                continue
            if not chunk.key:
                chunk.key = f"{PREFIX}{position}"
                changes[HOST, chunk.key] = self._encode(chunk.rows)
            still.append(chunk)
        self._open = still
        return changes

    def stop(self) -> None:
        """End after the write under way; what waits is in the last commit."""
        self._stopping.set()
        with self._changed:
            self._changed.notify()
        if self._thread.ident is not None:
            self._thread.join(END_S)

    def _submit(self, chunk: _Chunk) -> None:
        self._open.append(chunk)
        with self._changed:
            self._queue.append(chunk)
            self._changed.notify()
        if self._thread.ident is None:
            self._thread.start()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._queue or self._stopping.is_set())
                if self._stopping.is_set():
                    return
                chunks, self._queue = self._queue, []
            if not self._persist([row for chunk in chunks for row in chunk.rows]):
                return
            for chunk in chunks:
                chunk.done.set()

    def _persist(self, rows: list[model.Rollup]) -> bool:
        """Write rows, again and again while the store is unavailable; False when the service stops meanwhile."""
        retry_s = FIRST_RETRY_S
        while True:
            try:
                self._store(rows)
            except StoreUnavailable as error:
                self._retried()
                if self.problem is None:
                    _logger.warning("numbers wait to be stored, detection goes on: %s", error)
                self.problem = str(error)
                if self._stopping.wait(retry_s):
                    return False
                retry_s = min(retry_s * 2, LAST_RETRY_S)
            else:
                self.problem = None
                return True

    def _store(self, rows: list[model.Rollup]) -> None:
        try:
            self._write(rows)
            return
        except StoreUnavailable:
            raise
        except Exception as error:
            if len(rows) == 1:
                _logger.error("a rollup cannot be stored", exc_info=error)
                self.unusable.append((rows[0], error))
                return
        half = len(rows) // 2
        self._store(rows[:half])
        self._store(rows[half:])
