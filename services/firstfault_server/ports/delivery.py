"""Messages to destinations: what waits, and the record of every try."""

from collections.abc import Sequence
from typing import Annotated, Literal, Protocol, TypeAlias

import msgspec

from firstfault_server.core.model.base import otherwise
from firstfault_server.ports.lists import ListQuery, Page

MessageKind: TypeAlias = Annotated[Literal["opened", "corrected", "resolved", "test"], otherwise("corrected")]


class Message(msgspec.Struct, kw_only=True):
    """One message about an incident to one destination; the outbox row. Its body is fixed when it is made."""

    id: str
    """webhook-id: incident id + message number; the same over all retries."""
    tenant: str
    destination: str
    incident: str
    number: int
    kind: MessageKind
    revision: int
    body: bytes
    created_ns: int
    attempts: int = 0
    next_try_ns: int = 0
    state: Annotated[Literal["waiting", "delivered", "failed"], otherwise("failed")] = "waiting"
    last_error: str = ""


class Delivery(msgspec.Struct, kw_only=True):
    """One try to deliver one message."""

    id: str
    tenant: str
    message: str
    destination: str
    incident: str
    kind: MessageKind
    attempt: int
    time_ns: int
    duration_s: float
    status: int | None = None
    error: str = ""
    delivered: bool = False


class Outbox(Protocol):
    """Messages waiting to be delivered, and the record of every try."""

    def add(self, messages: Sequence[Message]) -> None:
        """Insert; an id that is there already stays as it is."""

    def due(self, now_ns: int, limit: int) -> list[Message]:
        """Waiting messages whose time has come; of one incident and destination only the lowest number."""

    def record(self, message: Message, delivery: Delivery) -> None:
        """Store the message's new state and the try, in one transaction."""

    def messages(self, tenant: str, incident_id: str) -> list[Message]:
        """All messages of an incident, by destination and number."""

    def deliveries(self, query: ListQuery) -> Page[Delivery]:
        """Delivery log, newest first. Search keys: destination, incident, kind, delivered."""

    def next_due_ns(self) -> int | None:
        """When the next waiting message is due."""

    def prune_deliveries(self, before_ns: int) -> int:
        """Drop tries that are older; returns how many went. Messages stay: they say what a destination was told."""

    def forget(self, incidents: Sequence[tuple[str, str]]) -> None:
        """Drop the messages of incidents (tenant, id) that are no more, those that wait too."""
