"""A log entry as a Kafka record: body as value, process as key, tenant and signal as headers, receive time as timestamp.

Kafka's timestamps have milliseconds; what is finer in a receive time is cut off. Clock records have no key, tenant or body.
"""

from typing import Any

import msgspec
from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Message

from firstfault_server.ports import LogEntry
from firstfault_server.wire import log_record
from firstfault_server.wire.log_record import MILLISECOND_NS, Foreign

__all__ = ["MILLISECOND_NS", "Foreign", "Record", "decode", "encode"]


class Record(msgspec.Struct, frozen=True):
    """What a producer is given."""

    key: bytes | None
    value: bytes
    headers: list[tuple[str, bytes]]
    timestamp_ms: int


def encode(entry: LogEntry) -> Record:
    """The record of an entry. One process is one key, so its records stay in order in one partition."""
    timestamp_ms = entry.received_ns // MILLISECOND_NS
    if entry.signal == "clock":
        return Record(None, b"", [("signal", b"clock")], timestamp_ms)
    tenant = entry.tenant.encode()
    headers = [("signal", entry.signal.encode()), ("tenant", tenant)]
    return Record(tenant + b"/" + entry.process.encode(), entry.body, headers, timestamp_ms)


def decode(message: Message) -> LogEntry:
    """The entry of a record. Raises Foreign."""
    headers: dict[str, Any] = dict(message.headers() or [])
    kind, timestamp_ms = message.timestamp()
    if kind == TIMESTAMP_NOT_AVAILABLE:
        raise Foreign("it has no timestamp")
    signal, tenant = headers.get("signal") or b"", headers.get("tenant") or b""
    return log_record.entry(signal, tenant, message.key() or b"", timestamp_ms, message.value() or b"")
