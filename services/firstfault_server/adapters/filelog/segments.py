"""Segment files: how a record lies on disk, and how a segment is named, scanned and mended.

A segment is a run of frames: length (uint32, little endian), CRC-32 of the payload (uint32), payload (msgpack of a
`LogEntry`). A position names the end of a frame: segment number and byte offset, both in fixed-width hexadecimal, so that
positions sort as strings in the order of the log.
"""

import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from firstfault_server.ports import LogEntry

HEADER: Final = struct.Struct("<II")
SUFFIX: Final = ".log"
LARGEST_FRAME: Final = 1 << 28
"""A length above this (256 MB) is not one that was written here; the receivers' limits are far below."""

encode_entry = msgspec.msgpack.Encoder().encode
decode_entry = msgspec.msgpack.Decoder(LogEntry).decode


class Position(NamedTuple):
    """End of a frame: everything up to it was read."""

    segment: int
    offset: int

    def __str__(self) -> str:
        return f"{self.segment:08x}-{self.offset:08x}"

    @classmethod
    def parse(cls, text: str) -> "Position":
        """Raises ValueError for text that is not a position."""
        segment, _, offset = text.partition("-")
        return cls(int(segment, 16), int(offset, 16))


class Frame(NamedTuple):
    """A frame of a chunk: where it ends in the chunk, and its payload, or None when the checksum does not fit."""

    end: int
    payload: memoryview | None


def frame(entry: LogEntry) -> bytes:
    """An entry as it lies on disk."""
    payload = encode_entry(entry)
    return HEADER.pack(len(payload), zlib.crc32(payload)) + payload


def frames(chunk: memoryview) -> Iterator[Frame]:
    """Whole frames of a chunk that starts at a frame; stops at one that the chunk does not hold to its end."""
    at, size = 0, len(chunk)
    while at + HEADER.size <= size:
        length, checksum = HEADER.unpack_from(chunk, at)
        end = at + HEADER.size + length
        if length > LARGEST_FRAME or end > size:
            return
        payload = chunk[at + HEADER.size : end]
        yield Frame(end, payload if zlib.crc32(payload) == checksum else None)
        at = end


def path_of(folder: Path, segment: int) -> Path:
    """File of a segment."""
    return folder / f"{segment:08x}{SUFFIX}"


def numbers(folder: Path) -> list[int]:
    """Segments there are, oldest first; other files are not looked at."""
    found = []
    for path in folder.glob(f"*{SUFFIX}"):
        try:
            found.append(int(path.stem, 16))
        except ValueError:
            continue
    return sorted(found)


class Scan(NamedTuple):
    """What a look through a segment found."""

    sound: int
    """Bytes up to the end of the last frame before anything torn."""
    size: int
    newest_ns: int
    """Receive time of the last sound entry, 0 when there is none."""


def scan(path: Path) -> Scan:
    """Read a segment to its first frame that is torn or fails its checksum."""
    data = memoryview(path.read_bytes())
    sound, last = 0, None
    for found in frames(data):
        if found.payload is None:
            break
        sound, last = found.end, found.payload
    return Scan(sound, len(data), decode_entry(last).received_ns if last is not None else 0)


def sync_folder(folder: Path) -> None:
    """Make the creation or removal of files durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
