"""A log entry as a Kafka record: body as value, process as key, tenant and signal as headers, receive time as timestamp.

Kafka's timestamps have milliseconds; what is finer in a receive time is cut off. Clock records have no key, tenant or body.
"""

from typing import Any, Final, get_args

import msgspec
from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Message

from firstfault_server.ports import LogEntry, Signal

SIGNALS: Final = frozenset(get_args(Signal))
MILLISECOND_NS: Final = 1_000_000


class Foreign(ValueError):
    """A record that ingest did not write; the message says why."""


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
    try:
        signal = (headers.get("signal") or b"").decode()
        tenant = (headers.get("tenant") or b"").decode()
        key = (message.key() or b"").decode()
    except UnicodeDecodeError as error:
        raise Foreign("key or headers are not text") from error
    if signal not in SIGNALS:
        raise Foreign(f"the header `signal` is {signal[:50]!r}")
    if kind == TIMESTAMP_NOT_AVAILABLE:
        raise Foreign("it has no timestamp")
    received_ns = timestamp_ms * MILLISECOND_NS
    if signal == "clock":
        return LogEntry(tenant="", process="", signal="clock", received_ns=received_ns)
    if not key.startswith(f"{tenant}/"):
        raise Foreign("its key does not start with its tenant")
    process = key[len(tenant) + 1 :]
    return LogEntry(tenant=tenant, process=process, signal=signal, received_ns=received_ns, body=message.value() or b"")  # type: ignore[arg-type]
