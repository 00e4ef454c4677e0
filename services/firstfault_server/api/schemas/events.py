"""Events, fingerprints and evidence."""

from datetime import datetime

from firstfault_server.api.schemas.base import Cursor, Shape
from firstfault_server.api.schemas.incidents import Evidence, ExceptionInfo

AttributeValue = str | int | float | bool | None
AttributeValues = AttributeValue | list[AttributeValue]


class Event(Shape):
    """One acknowledged exception or log record."""

    id: str
    time: datetime
    received: datetime
    run: str
    attempt: int | None
    rank: int | None
    node: str
    process: str
    event_name: str
    severity: int
    body: str
    exception: ExceptionInfo | None
    fingerprint: str
    symptom: str
    step: int | None
    phase: str
    trace_id: str
    span_id: str
    attributes: dict[str, AttributeValues]


class EventPage(Shape):
    """A page of events."""

    items: list[Event]
    next_cursor: Cursor


class DeadLetter(Shape):
    """Something that could not be used."""

    id: str
    received: datetime
    signal: str
    """`metrics`, `logs` or `traces`, or the topic of which the writer could not use a record; empty: a record within detection."""
    reason: str
    size: int
    """Bytes that are kept; of more than 64 kB the beginning."""


class DeadLetterWithData(DeadLetter):
    """With what is kept of it, base64."""

    data: str


class DeadLetterPage(Shape):
    """A page of dead letters."""

    items: list[DeadLetter]
    next_cursor: Cursor


class FingerprintGroup(Shape):
    """Equal failure texts."""

    fingerprint: str
    symptom: str
    type: str
    message: str
    count: int
    first_seen: datetime
    last_seen: datetime
    runs: list[str]
    nodes: list[str]


class FingerprintPage(Shape):
    """A page of groups."""

    items: list[FingerprintGroup]
    next_cursor: Cursor


class EvidenceWithEvent(Evidence):
    """An observation, and the event behind it where one is kept."""

    event: Event | None


class EvidencePage(Shape):
    """Everything a verdict rests on."""

    items: list[EvidenceWithEvent]
    not_seen: list[str]
    next_cursor: Cursor
