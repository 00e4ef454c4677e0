"""Tells compressed and binary files from logs by their first bytes."""

from pathlib import Path
from typing import Final

_DECOMPRESS: Final = "decompress it first"
_STARTS: Final = (
    (b"\x1f\x8b", f"is compressed (gzip), not a log: {_DECOMPRESS}"),
    (b"\x28\xb5\x2f\xfd", f"is compressed (zstd), not a log: {_DECOMPRESS}"),
    (b"\xfd7zXZ\x00", f"is compressed (xz), not a log: {_DECOMPRESS}"),
    (b"PK\x03\x04", "is a zip archive, not a log: unpack it first"),
    (b"\x7fELF", "is binary (ELF: a program, a library or a core dump), not a log"),
)


def why_no_log(path: str) -> str:
    """Why a file cannot be a log; empty: it may be one. Pipes and standard input are not looked into: what is read of them is gone."""
    file = Path(path)
    try:
        if path == "-" or not file.is_file():
            return ""
        with file.open("rb") as handle:
            head = handle.read(max(len(start) for start, _ in _STARTS))
    except OSError:
        # Whoever reads the file says so.
        return ""
    return next((f"{path} {reason}" for start, reason in _STARTS if head.startswith(start)), "")
