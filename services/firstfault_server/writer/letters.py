"""Dead letters of the writer: what it could not read, and what its stores refused."""

import hashlib
from typing import Final

import msgspec

from firstfault_server.core import model
from firstfault_server.wire.incoming import TopicRecord

LONGEST: Final = 64 << 10
LONGEST_TENANT: Final = 200


def unreadable(record: TopicRecord, error: Exception) -> model.DeadLetter:
    """A record of a topic that this version cannot read."""
    return _letter(record, f"a record of {record.topic} cannot be read: {error}", record.value)


def refused(record: TopicRecord, content: msgspec.Struct, error: Exception) -> model.DeadLetter:
    """A record that its store does not take."""
    return _letter(record, f"a record of {record.topic} cannot be stored: {type(error).__name__}: {error}", _encoded(content))


def _letter(record: TopicRecord, reason: str, data: bytes) -> model.DeadLetter:
    # Of its content, so that a batch that is tried again makes the same letter again.
    identity = hashlib.sha256(b"\0".join([record.topic.encode(), record.key, data])).hexdigest()
    # Keys start with their tenant; what it is not cannot be shown to anybody but belongs to somebody.
    tenant = record.key.partition(b"/")[0].decode("utf-8", "backslashreplace")[:LONGEST_TENANT]
    return model.DeadLetter(
        id=identity[:32], tenant=tenant, received_ns=record.written_ns, reason=reason[:2000], signal=record.topic, data=data[:LONGEST]
    )


def _encoded(content: msgspec.Struct) -> bytes:
    try:
        return msgspec.json.encode(content)
    except (UnicodeEncodeError, ValueError, OverflowError):
        return repr(content).encode("utf-8", "backslashreplace")
