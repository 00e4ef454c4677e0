"""The logs under contract, each opened and reopened in the same way."""

import asyncio
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from firstfault_server.adapters.filelog import FileLog
from firstfault_server.adapters.kafka import Connection, KafkaLog, Topic, ensure_topics
from firstfault_server.ports import Log, LogEntry

NOW_NS = 1_720_000_000_000_000_000
"""Receive time of the first entry; in whole milliseconds, and not in the future, which brokers refuse."""
MILLISECOND_NS = 1_000_000


class Place(Protocol):
    """Where a log lies; it can be opened again after it was closed."""

    @property
    def partitions(self) -> int:
        """In how many parts a clock record is kept."""

    def open(self) -> Log:
        """The log as a new process would find it."""

    def close(self) -> None:
        """Close what was opened last."""


class _Place:
    def __init__(self, partitions: int, make: Callable[[], Log]) -> None:
        self.partitions, self._make = partitions, make
        self._opened: list[Log] = []

    def open(self) -> Log:
        self._opened.append(self._make())
        return self._opened[-1]

    def close(self) -> None:
        while self._opened:
            self._opened.pop().close()


def file_place(folder: Path) -> Place:
    """A log in a folder."""
    return _Place(1, lambda: FileLog(folder))


def kafka_topic(address: str, partitions: int) -> str:
    """A new topic for one test. Its records are never deleted for their age."""
    name = f"test.{uuid.uuid4().hex}"
    ensure_topics(Connection(bootstrap=address), [Topic(name=name, partitions=partitions, settings={"retention.ms": "-1"})])
    return name


def kafka_place(address: str, partitions: int = 3) -> Place:
    """A log in a topic of its own."""
    topic = kafka_topic(address, partitions)
    return _Place(partitions, lambda: KafkaLog(Connection(bootstrap=address), topic))


def entry(number: int, process: str | None = None, body: bytes | None = None, tenant: str = "acme") -> LogEntry:
    """The n-th entry; processes take turns unless one is named."""
    return LogEntry(
        tenant=tenant,
        process=f"p-{number % 5}" if process is None else process,
        signal=("metrics", "logs", "traces")[number % 3],
        received_ns=NOW_NS + number * MILLISECOND_NS,
        body=f"body {number}".encode() if body is None else body,
    )


def clock(number: int) -> LogEntry:
    """A clock record."""
    return LogEntry(tenant="", process="", signal="clock", received_ns=NOW_NS + number * MILLISECOND_NS)


def put(log: Log, *entries: LogEntry) -> None:
    """Append and wait until it is durable."""
    asyncio.run(log.append(entries))


def everything(log: Log, after: str | None = None, limit_bytes: int = 1 << 20) -> list[tuple[str, LogEntry]]:
    """All entries after a position, read part by part."""
    found: list[tuple[str, LogEntry]] = []
    while part := log.read(found[-1][0] if found else after, limit_bytes):
        found.extend(part)
    return found


def by_process(found: list[tuple[str, LogEntry]]) -> dict[tuple[str, str], list[LogEntry]]:
    """Entries of each process in the order in which they were read."""
    sorted_out: dict[tuple[str, str], list[LogEntry]] = {}
    for _, each in found:
        sorted_out.setdefault((each.tenant, each.process), []).append(each)
    return sorted_out
