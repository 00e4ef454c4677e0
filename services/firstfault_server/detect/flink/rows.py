"""The bytes that pass between Flink's operators: one log record into the worker stage, one record from stage to stage."""

import struct
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import msgspec

from firstfault_server.core import model
from firstfault_server.wire.log_record import MILLISECOND_NS

CLOCK_PREFIX: Final = "clock-"
"""Begins the keys of clock rows; every other key has a `/`."""

_LOG: Final = struct.Struct(">iqqHH")
"""Partition, offset, receive time in ms, lengths of signal and tenant; what `LogRecords.java` writes."""
_STAGE: Final = struct.Struct(">qq?")
"""Receive time of the call that made the record, of the record itself, whether it is urgent."""
_PACK: Final = b"\xff"
"""Begins several rows in one; a row begins with a time, which is not negative."""
_LENGTH: Final = struct.Struct(">I")
_PART: Final = struct.Struct(">BII")
"""Place of the target, lengths of key and value; what `Packets.java` reads."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(model.AnyRecord).decode


class LogRow(NamedTuple):
    """A record of the input topic, as the source read it."""

    partition: int
    offset: int
    received_ms: int
    signal: bytes
    tenant: bytes
    body: bytes


def read_log_row(row: bytes) -> LogRow:
    """Raises struct.error for bytes that the source did not write."""
    partition, offset, received_ms, signal, tenant = _LOG.unpack_from(row)
    start = _LOG.size + signal
    return LogRow(partition, offset, received_ms, row[_LOG.size : start], row[start : start + tenant], row[start + tenant :])


def write_log_row(row: LogRow) -> bytes:
    """What the source writes; here for tests."""
    head = _LOG.pack(row.partition, row.offset, row.received_ms, len(row.signal), len(row.tenant))
    return head + row.signal + row.tenant + row.body


class Head(NamedTuple):
    """What a host must know of a record before its key is drained."""

    now_ns: int
    """Receive time of the call that made it."""
    received_ns: int
    urgent: bool


def stage_row(record: model.AnyRecord, head: Head) -> bytes:
    """A record for the next stage."""
    return _STAGE.pack(*head) + _encode(record)


def clock_row(now_ns: int) -> bytes:
    """What a clock key is sent; `LogRecords.java` writes the first ones."""
    return _STAGE.pack(now_ns, now_ns, False)


def head_of(row: bytes) -> Head:
    """The head of a row, without reading the record."""
    return Head._make(_STAGE.unpack_from(row))


def record_of(row: bytes) -> model.AnyRecord:
    """The record of a row."""
    record: model.AnyRecord = _decode(memoryview(row)[_STAGE.size :])
    return record


def unpacked(row: bytes) -> Sequence[bytes]:
    """The rows that came as one."""
    if row[:1] != _PACK:
        return (row,)
    rows: list[bytes] = []
    at = len(_PACK)
    while at < len(row):
        (length,) = _LENGTH.unpack_from(row, at)
        at += _LENGTH.size
        rows.append(row[at : at + length])
        at += length
    return rows


def packed(rows: Sequence[bytes]) -> bytes:
    """What `Gather.java` writes; here for tests."""
    return rows[0] if len(rows) == 1 else _PACK + b"".join([_LENGTH.pack(len(row)) + row for row in rows])


def packet(parts: Iterable[tuple[int, bytes, bytes]]) -> bytes:
    """What one call of a stage made: for each row the place of its target, its key and value."""
    return b"".join([piece for target, key, value in parts for piece in (_PART.pack(target, len(key), len(value)), key, value)])


def timer_ms(second: int) -> int:
    """The event time at which Flink calls for a second: watermarks trail the newest record by 1 ms."""
    return second * 1000 - 1


def timer_second(timestamp_ms: int) -> int:
    """The second that a timer was set for."""
    return (timestamp_ms + 1) // 1000


def reached_ns(watermark_ms: int) -> int:
    """Receive time that the log has reached; 0 before the first watermark."""
    return max(0, watermark_ms + 1) * MILLISECOND_NS
