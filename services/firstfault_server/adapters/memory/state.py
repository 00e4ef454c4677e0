"""What the in-memory stores share, and how they list it."""

import threading
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import msgspec

from firstfault_server.core import model
from firstfault_server.core.keyset import start_key
from firstfault_server.core.search_fields import Document, Fields
from firstfault_server.core.search_match import check, matches
from firstfault_server.core.unicode import escaped
from firstfault_server.ports import AccessKey, Audit, Delivery, Destination, ListQuery, Message, Page

T = TypeVar("T")
StructT = TypeVar("StructT", bound=msgspec.Struct)


class State:
    """Everything stored, behind one lock; records are copied on the way in and out, as a real store does."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.events: dict[tuple[str, str], model.Event] = {}
        self.dead_letters: dict[tuple[str, str], model.DeadLetter] = {}
        self.incidents: dict[tuple[str, str], dict[int, model.Incident]] = {}
        self.runs: dict[tuple[str, str], model.RunStatus] = {}
        self.triage: dict[tuple[str, str], model.Triage] = {}
        self.silences: dict[tuple[str, str], model.Silence] = {}
        self.audit: dict[tuple[str, str], Audit] = {}
        self.remembered: dict[tuple[str, str], tuple[int, str, bytes]] = {}
        self.keys: dict[str, AccessKey] = {}
        self.destinations: dict[tuple[str, str], Destination] = {}
        self.messages: dict[str, Message] = {}
        self.deliveries: dict[tuple[str, str], Delivery] = {}
        self.snapshots: dict[tuple[str, str], bytes] = {}
        self.position: str | None = None


def copied(record: StructT) -> StructT:
    """A copy that shares nothing with the record; text that is not Unicode is escaped, as in every store."""
    try:
        data = msgspec.msgpack.encode(record)
    except UnicodeEncodeError:
        data = msgspec.msgpack.encode(escaped(record))
    return msgspec.msgpack.decode(data, type=type(record))


def listed(query: ListQuery, fields: Fields, items: Iterable[tuple[int, str, T]], document: Callable[[T], Document]) -> Page[T]:
    """The page of (time, id, item) that the query asks for. Raises SearchError."""
    check(query.where, fields)
    start = start_key(query.after)
    chosen = [
        row
        for row in items
        if in_period(query, row[0]) and (start is None or row[:2] < start) and matches(query.where, document(row[2]), fields)
    ]
    chosen.sort(key=lambda row: row[:2], reverse=True)
    kept = chosen[: query.limit]
    next_key: list[Any] | None = [*kept[-1][:2]] if kept and len(chosen) > query.limit else None
    return Page(items=[row[2] for row in kept], next_key=next_key)


def in_period(query: ListQuery, time_ns: int) -> bool:
    """Whether the time lies in the half-open period of the query."""
    return (query.since_ns is None or time_ns >= query.since_ns) and (query.until_ns is None or time_ns < query.until_ns)
