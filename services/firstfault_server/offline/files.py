"""Reads log files line by line in bounded memory, whatever bytes they hold."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

CHUNK: Final = 1 << 20
LONGEST_LINE: Final = 1 << 16
"""Bytes of a line that are kept."""
_RANK_NAME: Final = re.compile(r"(?i)(?:^|[^a-z])(?:rank|global_rank|worker|task|proc(?:ess)?)[_=.-]?(\d{1,6})(?!\d)")
_TORCHRUN_DIR: Final = re.compile(r"attempt_\d{1,5}[/\\](\d{1,6})[/\\](?:stdout|stderr)\.log$")


class Unreadable(Exception):
    """A file cannot be read; the message names it and the reason."""


def lines_of(path: str) -> Iterator[str]:
    """Lines of a file (`-`: standard input) without their ends; bytes that are not UTF-8 become escapes. Raises Unreadable."""
    try:
        if path == "-":
            yield from _lines(sys.stdin.buffer)
        else:
            with Path(path).open("rb") as handle:
                yield from _lines(handle)
    except OSError as error:
        raise Unreadable(f"{path}: {error.strerror or error}") from error


def _lines(handle: BinaryIO) -> Iterator[str]:
    rest = b""
    skipping = False
    while chunk := handle.read(CHUNK):
        if b"\0" in chunk:
            # UTF-16 and binary files: without the zeros the letters stand.
            chunk = chunk.replace(b"\0", b"")
        parts = (rest + chunk).split(b"\n")
        rest = parts.pop()
        for part in parts:
            if skipping:
                skipping = False
                continue
            yield _text(part)
        if len(rest) > LONGEST_LINE:
            if not skipping:
                yield _text(rest)
            rest, skipping = b"", True
    if rest and not skipping:
        yield _text(rest)


def _text(line: bytes) -> str:
    return line[:LONGEST_LINE].rstrip(b"\r").decode("utf-8", "backslashreplace")


def rank_of_name(path: str) -> int | None:
    """The rank a file name tells: `rank_3.log`, torchrun's `attempt_0/3/stderr.log`."""
    found = _TORCHRUN_DIR.search(path) or _RANK_NAME.search(Path(path).name)
    return int(found[1]) if found is not None else None
