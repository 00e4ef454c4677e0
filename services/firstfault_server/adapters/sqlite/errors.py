"""SQLite's failures as the store errors of the ports, with what to do about them."""

import sqlite3
from pathlib import Path
from typing import Final

from firstfault_server.ports import StorageFull, StoreUnavailable

# https://www.sqlite.org/rescode.html: the low byte is the primary code, the rest says more.
_FULL: Final = 13
_BUSY: Final = frozenset({5, 6})
_DAMAGED: Final = frozenset({11, 26})
_IO_ERROR: Final = 10
# A write, a truncation or the shared index that could not grow: what a full quota or a limit on file sizes looks like.
_NO_ROOM: Final = frozenset({778, 1546, 4874, 4618})


def translated(error: sqlite3.Error, path: Path) -> StoreUnavailable:
    """The store error that says what happened to the database at `path`."""
    code = getattr(error, "sqlite_errorcode", 0) or 0
    name = getattr(error, "sqlite_errorname", "") or type(error).__name__
    if code & 0xFF == _FULL:
        return StorageFull(f"{path}: no space left ({error}); free space on its file system or lower the retention")
    if code in _NO_ROOM:
        return StorageFull(
            f"{path}: cannot be written ({name}): no space left, a limit on file size, or a failing disk; free space or raise the limit"
        )
    if code & 0xFF == _IO_ERROR:
        return StoreUnavailable(f"{path}: the disk reports an error ({name}: {error}); check the device and the kernel log")
    if code & 0xFF in _BUSY:
        return StoreUnavailable(f"{path}: locked by another process for too long; end it and try again")
    if code & 0xFF in _DAMAGED:
        return StoreUnavailable(f"{path}: is damaged or no database ({error}); restore it from a backup")
    return StoreUnavailable(f"{path}: {name}: {error}")
