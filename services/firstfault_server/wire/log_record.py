"""One record of the input topic: what its parts must be to make a log entry, and the name of its place."""

from typing import Any, Final, cast, get_args

from firstfault_server.ports import LogEntry, Signal

SIGNALS: Final = frozenset(get_args(Signal))
MILLISECOND_NS: Final = 1_000_000


class Foreign(ValueError):
    """A record that ingest did not write; the message says why."""


def place(partition: int, offset: int) -> str:
    """Where a record lies; of one partition they sort like its records."""
    return f"{partition:04x}-{offset:016x}"


def entry(signal: bytes, tenant: bytes, key: bytes, timestamp_ms: int, body: bytes) -> LogEntry:
    """The entry that these parts make; key, tenant and body of a clock record are nothing. Raises Foreign."""
    try:
        kind, owner, name = signal.decode(), tenant.decode(), key.decode()
    except UnicodeDecodeError as error:
        raise Foreign("key or headers are not text") from error
    if kind not in SIGNALS:
        raise Foreign(f"the header `signal` is {kind[:50]!r}")
    received_ns = timestamp_ms * MILLISECOND_NS
    if kind == "clock":
        return LogEntry(tenant="", process="", signal="clock", received_ns=received_ns)
    if not name.startswith(f"{owner}/"):
        raise Foreign("its key does not start with its tenant")
    return LogEntry(tenant=owner, process=name[len(owner) + 1 :], signal=cast(Any, kind), received_ns=received_ns, body=body)
