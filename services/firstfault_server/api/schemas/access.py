"""Keys, destinations and deliveries."""

from datetime import datetime
from typing import Any, Literal

from firstfault_server.api.schemas.base import Cursor, Shape


class Key(Shape):
    """An API key without its secret."""

    id: str
    tenant: str
    name: str
    scopes: list[Literal["ingest", "node", "read", "write", "admin"]]
    created_at: datetime
    revoked_at: datetime | None


class NewKey(Key):
    """A key just made; `key` is shown this once."""

    key: str


class KeyPage(Shape):
    """All keys of a tenant."""

    items: list[Key]
    next_cursor: Cursor


class Destination(Shape):
    """Where pages go."""

    id: str
    name: str
    kind: str
    url: str
    where: str
    enabled: bool
    disabled_why: str
    allow_private: bool
    created_at: datetime


class NewDestination(Destination):
    """A destination just made; `secret` is shown this once."""

    secret: str


class DestinationPage(Shape):
    """All destinations of a tenant."""

    items: list[Destination]
    next_cursor: Cursor


class Delivery(Shape):
    """One try to deliver one message."""

    id: str
    message: str
    destination: str
    incident: str
    kind: Literal["opened", "corrected", "resolved", "test"]
    attempt: int
    time: datetime
    duration_s: float
    status: int | None
    error: str
    delivered: bool


class DeliveryPage(Shape):
    """A page of tries."""

    items: list[Delivery]
    next_cursor: Cursor


class AuditEntry(Shape):
    """A change that a person made."""

    id: str
    time: datetime
    actor: str
    action: str
    subject: str
    detail: dict[str, Any]


class AuditPage(Shape):
    """A page of changes."""

    items: list[AuditEntry]
    next_cursor: Cursor
