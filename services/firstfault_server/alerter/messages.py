"""Which messages follow from an incident as it stands now: the page, corrections, the resolve. Pure.

A destination hears of an incident first by one opening message, when the verdict has settled. What it was told last is read
from the outbox itself, so a replay, a restart or a second look at the same revision never adds a message.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from firstfault_server import ports
from firstfault_server.alerter.body import message_body
from firstfault_server.core import model
from firstfault_server.core.documents import incident_document, is_muted, merged_state, rfc3339
from firstfault_server.core.search import Expression
from firstfault_server.core.selection import selects

EVENT_TYPES: Final[dict[ports.MessageKind, str]] = {
    "opened": "incident.opened",
    "corrected": "incident.corrected",
    "resolved": "incident.resolved",
    "test": "test",
}


MAX_MESSAGES: Final = 50
"""Messages about one incident to one destination; afterwards only its end is told. A verdict that keeps changing must not flood."""


class Essence(msgspec.Struct, frozen=True, kw_only=True):
    """What a correction is about; read back from the body of the last message."""

    symptom: str
    rank: int | None
    scope: str
    severity: str
    title: str
    recurrences: int
    resolved: bool


def essence(document: dict[str, Any]) -> Essence:
    """The part of an INCIDENT whose change is worth a message."""
    fault = document["first_fault"]
    return Essence(
        symptom=document["symptom"],
        rank=fault["rank"],
        scope=fault["scope"],
        severity=document["severity"],
        title=document["title"],
        recurrences=document["recurrences"],
        resolved=document["state"] == "resolved",
    )


def next_message(
    incident: model.Incident,
    triage: model.Triage,
    destination: ports.Destination,
    where: Expression,
    told: Sequence[ports.Message],
    now_ns: int,
    base_url: str = "",
    silences: Sequence[model.Silence] = (),
) -> ports.Message | None:
    """The message that this destination is owed, or None. `silences` are those that keep the incident quiet now.

    `told` are the messages of this incident in the outbox; those of other destinations are ignored. `where` is the parsed
    `destination.where`.
    """
    earlier = sorted((message for message in told if message.destination == destination.id), key=lambda message: message.number)
    quiet = bool(silences) or is_muted(triage, now_ns)
    kind = _kind(incident, triage, destination, where, earlier, now_ns, quiet)
    if kind is None:
        return None
    number = earlier[-1].number + 1 if earlier else 1
    document = {
        "type": EVENT_TYPES[kind],
        "timestamp": rfc3339(now_ns),
        "message": number,
        **incident_document(incident, triage, base_url, silences),
    }
    body, shown = message_body(document)
    if kind == "corrected":
        before, now = essence(msgspec.json.decode(earlier[-1].body)), essence(shown)
        # What was told already may be newer than what is looked at; only people's marks are news then.
        if now == before or (is_outdated(incident, earlier) and now.resolved == before.resolved):
            return None
    return ports.Message(
        id=f"{incident.id}.{number}.{destination.id}",
        tenant=incident.tenant,
        destination=destination.id,
        incident=incident.id,
        number=number,
        kind=kind,
        revision=incident.revision,
        body=body,
        created_ns=now_ns,
        next_try_ns=now_ns,
    )


def is_outdated(incident: model.Incident, told: Sequence[ports.Message]) -> bool:
    """Whether a later revision than this one was told already: records come again after a crash, and stores may lag behind."""
    return any(message.revision > incident.revision for message in told)


def _kind(
    incident: model.Incident,
    triage: model.Triage,
    destination: ports.Destination,
    where: Expression,
    earlier: Sequence[ports.Message],
    now_ns: int,
    quiet: bool,
) -> ports.MessageKind | None:
    resolved = merged_state(incident, triage) == "resolved"
    if earlier:
        if resolved:
            return None if earlier[-1].kind == "resolved" else "resolved"
        # Mutes and silences ask for quiet; only the end of what was paged is still told.
        return None if quiet or len(earlier) >= MAX_MESSAGES else "corrected"
    pages = (
        destination.enabled
        and incident.page
        and incident.first_fault.status == "settled"
        and not resolved
        and not quiet
        and _last_began(incident) >= destination.created_ns
        and selects(where, incident, triage, now_ns)
    )
    return "opened" if pages else None


def _last_began(incident: model.Incident) -> int:
    """When it happened last: a new destination hears of what recurs, not of what is over."""
    return max(incident.opened_at, incident.first_fault.time or 0) if incident.recurrences else incident.opened_at


def webhook_id(message: ports.Message) -> str:
    """Id by which a receiver knows a message again: the same over all tries, and per incident in order."""
    return f"{message.incident}.{message.number}" if message.incident else message.id


def test_message(destination: ports.Destination, message_id: str, now_ns: int) -> ports.Message:
    """A message that says nothing happened."""
    body = msgspec.json.encode(
        {
            "type": EVENT_TYPES["test"],
            "timestamp": rfc3339(now_ns),
            "message": 0,
            "title": "Test of a firstfault destination: nothing happened.",
        }
    )
    return ports.Message(
        id=message_id,
        tenant=destination.tenant,
        destination=destination.id,
        incident="",
        number=0,
        kind="test",
        revision=0,
        body=body,
        created_ns=now_ns,
        next_try_ns=now_ns,
    )
