"""People's marks on incidents: acknowledge, resolve, reopen, mute, assign, note. Each is compare-and-set and leaves an audit entry.

One that says what is so already changes nothing and leaves none.
"""

from collections.abc import Callable
from typing import Any

import msgspec
from fastapi import APIRouter
from pydantic import Field
from starlette.responses import Response

from firstfault_server import ports
from firstfault_server.api import schemas
from firstfault_server.api.access import Reader
from firstfault_server.api.lists import LONGEST_PERIOD, json_response, parse_period, parse_time
from firstfault_server.api.parts import WithPart, part
from firstfault_server.api.problems import Problem
from firstfault_server.api.services import WithServices
from firstfault_server.api.shown import Shown
from firstfault_server.api.writes import Answer, Body, By, Name, VersionedWrite, WithVersionedWrite, answer, etag
from firstfault_server.core import model
from firstfault_server.core.documents import merged_state, note_document, rfc3339

router = APIRouter(prefix="/v1/incidents/{incident_id}", tags=["incidents"])

MAX_NOTES = 200
TRIES = 5
"""Compare-and-set without `If-Match` is repeated so often when others write at the same time."""

Change = Callable[[model.Incident, model.Triage], model.Triage]
"""What a mark makes of the marks before it; the same ones when it says nothing new."""


class Mute(By):
    """How long to be quiet; neither: until unmuted. `until` null with `unmute` ends it."""

    until: str | None = Field(default=None, max_length=64, description="RFC 3339.")
    period: str | None = Field(default=None, max_length=LONGEST_PERIOD, description="2h, 7d … from now.")
    unmute: bool = False


class Assign(By):
    """To whom; null: to nobody."""

    assignee: Name | None


class NewNote(By):
    """What to write down."""

    text: str = Field(min_length=1, max_length=10_000)


FOREVER_NS = 2**63 - 1


@router.post("/ack", response_model=schemas.Incident)
def acknowledge(asked: WithVersionedWrite, incident_id: str, body: By | None = None) -> Response:
    """Somebody is on it."""
    marks = body or By()
    now_ns, person = asked.services.clock.now_ns(), marks.by or asked.caller.actor

    def change(incident: model.Incident, triage: model.Triage) -> model.Triage:
        if triage.ack_by == person and _stands(incident, triage.ack_at_ns):
            return triage
        return msgspec.structs.replace(triage, ack_by=person, ack_at_ns=now_ns)

    return _write(asked, incident_id, "ack", marks, change)


@router.post("/resolve", response_model=schemas.Incident)
def resolve(asked: WithVersionedWrite, incident_id: str, body: By | None = None) -> Response:
    """It is over."""
    marks = body or By()
    now_ns, person = asked.services.clock.now_ns(), marks.by or asked.caller.actor

    def change(incident: model.Incident, triage: model.Triage) -> model.Triage:
        if triage.resolved_by == person and _stands(incident, triage.resolved_at_ns):
            return triage
        return msgspec.structs.replace(triage, resolved_by=person, resolved_at_ns=now_ns, reopened_at_ns=None)

    return _write(asked, incident_id, "resolve", marks, change)


@router.post("/reopen", response_model=schemas.Incident)
def reopen(asked: WithVersionedWrite, incident_id: str, body: By | None = None) -> Response:
    """It is not over after all."""
    marks = body or By()
    now_ns = asked.services.clock.now_ns()

    def change(incident: model.Incident, triage: model.Triage) -> model.Triage:
        if triage.ack_by is None and triage.resolved_by is None and merged_state(incident, triage) == "open":
            return triage
        return msgspec.structs.replace(triage, resolved_by=None, resolved_at_ns=None, reopened_at_ns=now_ns, ack_by=None, ack_at_ns=None)

    return _write(asked, incident_id, "reopen", marks, change)


@router.post("/mute", response_model=schemas.Incident)
def mute(asked: WithVersionedWrite, incident_id: str, body: Mute | None = None) -> Response:
    """No messages about it, for a time or until unmuted."""
    marks = body or Mute()
    now_ns = asked.services.clock.now_ns()
    if sum((marks.until is not None, marks.period is not None, marks.unmute)) > 1:
        raise Problem(400, "mute: say one of until, period, unmute", "invalid")
    until_ns: int | None = FOREVER_NS
    if marks.unmute:
        until_ns = None
    elif marks.until is not None:
        until_ns = parse_time("until", marks.until)
    elif marks.period is not None:
        until_ns = min(now_ns + parse_period(marks.period), FOREVER_NS)

    def change(_incident: model.Incident, triage: model.Triage) -> model.Triage:
        if until_ns is not None and until_ns <= now_ns:
            field = "period" if marks.until is None else "until"
            raise Problem(400, f"{field}: the mute would end at once; give a time after {rfc3339(now_ns)}", "invalid")
        return msgspec.structs.replace(triage, muted_until_ns=until_ns)

    return _write(asked, incident_id, "unmute" if marks.unmute else "mute", marks, change)


@router.post("/assign", response_model=schemas.Incident)
def assign(asked: WithVersionedWrite, incident_id: str, body: Assign) -> Response:
    """Give it to a person."""

    def change(_incident: model.Incident, triage: model.Triage) -> model.Triage:
        return msgspec.structs.replace(triage, assignee=body.assignee)

    return _write(asked, incident_id, "assign", body, change)


@router.get("/notes", response_model=schemas.NotePage)
def notes(services: WithServices, caller: Reader, incident_id: str, wanted: WithPart) -> Response:
    """Notes, oldest first."""
    services.incidents.incident(caller.tenant, incident_id)
    triage = services.triage.triage(caller.tenant, incident_id)
    page, following = part("notes", wanted, caller, services, [incident_id]).in_order(triage.notes)
    document = {"items": [note_document(note) for note in page], "next_cursor": following}
    return json_response(document, headers={"etag": etag(triage.version)})


@router.post("/notes", response_model=schemas.Incident, status_code=201)
def add_note(asked: WithVersionedWrite, incident_id: str, body: NewNote) -> Response:
    """Write something down."""
    note_id = asked.new_id(incident_id)
    note = model.Note(id=note_id, author=body.by or asked.caller.actor, time_ns=asked.services.clock.now_ns(), text=body.text)

    def change(_incident: model.Incident, triage: model.Triage) -> model.Triage:
        if any(known.id == note_id for known in triage.notes):
            return triage
        if len(triage.notes) >= MAX_NOTES:
            raise Problem(400, f"notes: an incident holds at most {MAX_NOTES}", "invalid")
        return msgspec.structs.replace(triage, notes=[*triage.notes, note])

    return _write(asked, incident_id, "note", body, change, 201)


def _stands(incident: model.Incident, mark_ns: int | None) -> bool:
    """Whether a mark of that time says something still: not once the failure has come back after it."""
    alone = model.Triage(tenant=incident.tenant, incident=incident.id, ack_at_ns=mark_ns)
    return merged_state(msgspec.structs.replace(incident, state="open"), alone) != "open"


def _write(asked: VersionedWrite, incident_id: str, action: str, body: Body, change: Change, status: int = 200) -> Response:
    version = asked.wanted_version()
    services, tenant = asked.services, asked.caller.tenant
    detail: dict[str, Any] = body.model_dump(exclude_none=True)

    def write() -> Answer:
        incident = services.incidents.incident(tenant, incident_id)
        triage = _compare_and_set(asked, incident, action, detail, change, version)
        services.triage_changed(incident, triage)
        services.changes.publish([(tenant, incident_id)])
        return answer(Shown(services, tenant).document(incident, triage), status, etag(triage.version))

    return asked.once(detail, write)


def _compare_and_set(
    asked: VersionedWrite, incident: model.Incident, action: str, detail: dict[str, Any], change: Change, version: int | None
) -> model.Triage:
    store = asked.services.triage
    for attempt in range(1, TRIES + 1):
        stored = store.triage(asked.caller.tenant, incident.id)
        if version is not None and stored.version != version:
            raise ports.VersionConflict(f"the triage version is {stored.version}")
        changed = change(incident, stored)
        if changed == stored:
            return stored
        try:
            return store.put_triage(changed, asked.audit(action, incident.id, detail))
        except ports.VersionConflict:
            if version is not None or attempt == TRIES:
                raise
    raise AssertionError("unreachable")
