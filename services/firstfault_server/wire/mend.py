"""Mend a protobuf request that does not parse because a few of its fields are broken, so that they cost only themselves.

Text that is not UTF-8 keeps its bytes as escapes; a nested message that is broken inside is left out and counted. The walk follows
the message descriptor; it runs only after the ordinary parser has refused the bytes.
"""

from typing import Final, NamedTuple

from google.protobuf.descriptor import Descriptor, FieldDescriptor

MOST_FIELDS: Final = 2_000_000
"""A request of more fields is given up, so that a hostile one cannot occupy a core."""
DEEPEST: Final = 60
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FIXED_SIZES: Final = {
    FieldDescriptor.TYPE_DOUBLE: 8,
    FieldDescriptor.TYPE_FIXED64: 8,
    FieldDescriptor.TYPE_SFIXED64: 8,
    FieldDescriptor.TYPE_FLOAT: 4,
    FieldDescriptor.TYPE_FIXED32: 4,
    FieldDescriptor.TYPE_SFIXED32: 4,
}


class Mended(NamedTuple):
    """The bytes that can be parsed, and how many nested messages had to go and texts had to be escaped."""

    data: bytes
    dropped: int
    escaped: int


class _Broken(Exception):
    """The structure of a message cannot be followed."""


class _Walk:
    def __init__(self) -> None:
        self.dropped = self.escaped = self.fields = 0

    def message(self, data: memoryview, descriptor: Descriptor, depth: int) -> bytes:
        fields = descriptor.fields_by_number
        out: list[bytes | memoryview] = []
        at, size = 0, len(data)
        while at < size:
            self.fields += 1
            if self.fields > MOST_FIELDS or depth > DEEPEST:
                raise _Broken
            start = at
            tag, at = _varint(data, at)
            number, wire = tag >> 3, tag & 7
            if number == 0:
                raise _Broken
            if wire == _VARINT:
                _, at = _varint(data, at)
            elif wire in (_FIXED64, _FIXED32):
                at += 8 if wire == _FIXED64 else 4
            elif wire == _BYTES:
                length, at = _varint(data, at)
                content, at = data[at : at + length], at + length
                if at > size:
                    raise _Broken
                field = fields.get(number)
                if field is not None:
                    mended = self.content(content, field, depth)
                    if mended is not None:
                        out += (_number(tag), _number(len(mended)), mended)
                    continue
            else:
                raise _Broken
            if at > size:
                raise _Broken
            out.append(data[start:at])
        return b"".join(out)

    def content(self, content: memoryview, field: FieldDescriptor, depth: int) -> bytes | memoryview | None:
        if field.message_type is not None:
            try:
                return self.message(content, field.message_type, depth + 1)
            except _Broken:
                self.dropped += 1
                return None
        if field.type == FieldDescriptor.TYPE_STRING:
            try:
                str(content, "utf-8")
            except UnicodeDecodeError:
                self.escaped += 1
                return str(content, "utf-8", "backslashreplace").encode()
        elif len(content) % _FIXED_SIZES.get(field.type, 1):
            self.dropped += 1
            return None
        return content


def mend(data: bytes, descriptor: Descriptor) -> Mended | None:
    """The request without what is broken in it; None when not even its outermost structure can be followed."""
    walk = _Walk()
    try:
        mended = walk.message(memoryview(data), descriptor, 0)
    except _Broken:
        return None
    if walk.fields > MOST_FIELDS:
        return None
    return Mended(mended, walk.dropped, walk.escaped)


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 64:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise _Broken


def _number(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
