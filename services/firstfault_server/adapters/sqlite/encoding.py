"""Records as stored: msgpack, deflated where that pays; and values that SQLite's columns can hold."""

import zlib
from typing import Final, TypeVar

import msgspec

from firstfault_server.core import later
from firstfault_server.core.unicode import escaped

RecordT = TypeVar("RecordT", bound=msgspec.Struct)

_PLAIN: Final = b"\x00"
_DEFLATED: Final = b"\x01"
_WORTH_BYTES: Final = 512
_LOWEST: Final = -(1 << 63)
_HIGHEST: Final = (1 << 63) - 1


def pack(record: msgspec.Struct) -> bytes:
    """The record as bytes. Raises UnicodeEncodeError for text that is not Unicode (see `storable`)."""
    data = msgspec.msgpack.encode(record)
    # Level 1: stack traces shrink to a third, at a tenth of the cost of the insert.
    return _DEFLATED + zlib.compress(data, 1) if len(data) > _WORTH_BYTES else _PLAIN + data


def unpack(data: bytes, kind: type[RecordT]) -> RecordT:
    """The record that `pack` made, of this version or a later one."""
    body = memoryview(data)[1:]
    return later.decode(zlib.decompress(body) if data[:1] == _DEFLATED else body, kind)


def storable(record: RecordT) -> tuple[RecordT, bytes]:
    """The record and its bytes; text that is not Unicode (lone surrogates) is escaped, so that one such record costs no other."""
    try:
        return record, pack(record)
    except UnicodeEncodeError:
        mended = escaped(record)
        return mended, pack(mended)


def column(number: int) -> int:
    """The number, or the nearest that a 64-bit column holds."""
    return min(max(number, _LOWEST), _HIGHEST)
