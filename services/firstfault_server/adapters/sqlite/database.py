"""One SQLite file: a guarded writer connection, a pool of read-only connections, transactions on both."""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from firstfault_server.adapters.sqlite import schema
from firstfault_server.adapters.sqlite.errors import translated
from firstfault_server.ports import StoreUnavailable

BUSY_TIMEOUT_MS: Final = 10_000
"""How long a write waits for another process, for instance a command that lists keys."""
_CACHED_STATEMENTS: Final = 512
_JOURNAL_LIMIT_BYTES: Final = 64 << 20
_IDLE_READERS: Final = 8
_WRITER_CACHE_KB: Final = 16_384


class Database:
    """The file and its connections. Safe to use from several threads; one process writes at a time."""

    def __init__(self, path: Path, *, max_bytes: int | None = None) -> None:
        """Opens or creates the file and brings its schema up to date. `max_bytes` limits the file's size.

        Raises StoreUnavailable.
        """
        self.path = path
        self._lock = threading.RLock()
        self._readers: list[sqlite3.Connection] = []
        self._closed = False
        try:
            # The owner's alone, since destinations have secrets; the files beside it get the same mode.
            path.touch(mode=0o600)
        except OSError as error:
            raise StoreUnavailable(f"{path}: cannot be made: {error.strerror}") from error
        try:
            self._writer = sqlite3.connect(
                path, isolation_level=None, check_same_thread=False, cached_statements=_CACHED_STATEMENTS, timeout=BUSY_TIMEOUT_MS / 1000
            )
        except sqlite3.Error as error:
            raise translated(error, path) from error
        try:
            self._prepare(max_bytes)
        except sqlite3.Error as error:
            self._writer.close()
            raise translated(error, path) from error
        except StoreUnavailable:
            self._writer.close()
            raise

    def _prepare(self, max_bytes: int | None) -> None:
        writer = self._writer
        writer.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")
        # Pages that pruning frees go back to the file system; only effective before the first table is made.
        writer.execute("PRAGMA auto_vacuum=INCREMENTAL")
        writer.execute("PRAGMA journal_mode=WAL")
        writer.execute(f"PRAGMA journal_size_limit={_JOURNAL_LIMIT_BYTES}")
        writer.execute("PRAGMA synchronous=FULL")
        writer.execute(f"PRAGMA cache_size=-{_WRITER_CACHE_KB}")
        # Debian builds overwrite what is deleted with zeros, which makes pruning as slow as writing.
        writer.execute("PRAGMA secure_delete=OFF")
        if max_bytes is not None:
            page_size: int = writer.execute("PRAGMA page_size").fetchone()[0]
            writer.execute(f"PRAGMA max_page_count={max(1, max_bytes // page_size)}")
        schema.migrate(writer, self.path)

    @contextmanager
    def write(self, *, durable: bool = True) -> Iterator[sqlite3.Connection]:
        """A transaction: commits at the end of the block, rolls back on any error.

        `durable=False` leaves the flush to the next durable commit, which makes both durable, in order: for what can be
        read again from the log until then. Raises StorageFull, StoreUnavailable.
        """
        with self._lock:
            self._check_open()
            writer = self._writer
            try:
                writer.execute("PRAGMA synchronous=FULL" if durable else "PRAGMA synchronous=NORMAL")
                writer.execute("BEGIN IMMEDIATE")
                try:
                    yield writer
                    writer.execute("COMMIT")
                finally:
                    # SQLite rolls back by itself on some errors, such as a full disk.
                    if writer.in_transaction:
                        writer.execute("ROLLBACK")
            except sqlite3.Error as error:
                raise translated(error, self.path) from error

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """A read transaction: everything in the block sees one state of the database. Raises StoreUnavailable."""
        try:
            reader = self._borrow()
            try:
                reader.execute("BEGIN")
                yield reader
            finally:
                if reader.in_transaction:
                    reader.execute("ROLLBACK")
                self._give_back(reader)
        except sqlite3.Error as error:
            raise translated(error, self.path) from error

    def _borrow(self) -> sqlite3.Connection:
        with self._lock:
            self._check_open()
            if self._readers:
                return self._readers.pop()
        # Not opened with mode=ro: a reader of a WAL database may have to rebuild the shared index.
        reader = sqlite3.connect(
            self.path, isolation_level=None, check_same_thread=False, cached_statements=_CACHED_STATEMENTS, timeout=BUSY_TIMEOUT_MS / 1000
        )
        reader.execute("PRAGMA query_only=ON")
        return reader

    def _give_back(self, reader: sqlite3.Connection) -> None:
        with self._lock:
            if not self._closed and len(self._readers) < _IDLE_READERS:
                self._readers.append(reader)
                return
        reader.close()

    def _check_open(self) -> None:
        if self._closed:
            raise StoreUnavailable(f"{self.path}: is closed")

    def size_bytes(self) -> int:
        """Bytes in use, without what pruning freed."""
        with self.read() as reader:
            return used_bytes(reader)

    def reclaim(self) -> None:
        """Give free pages back to the file system. Raises StoreUnavailable."""
        with self._lock:
            self._check_open()
            try:
                # One step of it frees one page and gives a row without columns, at which `execute` would stop.
                self._writer.executescript("PRAGMA incremental_vacuum")
                self._writer.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
            except sqlite3.Error as error:
                raise translated(error, self.path) from error

    def close(self) -> None:
        """Release the file; calls after it raise StoreUnavailable."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            for reader in self._readers:
                reader.close()
            self._readers.clear()
            self._writer.close()


def used_bytes(connection: sqlite3.Connection) -> int:
    """Bytes of all pages that hold something."""
    pages, free, size = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size"))
    return int((pages - free) * size)
