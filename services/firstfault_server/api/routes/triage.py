"""People's marks on incidents: acknowledge, resolve, reopen, mute, assign, note. Each is compare-and-set and leaves an audit entry."""

from collections.abc import Callable
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from firstfault_server import ports
from firstfault_server.api import schemas
from firstfault_server.api.access import Principal, Reader, Writer
from firstfault_server.api.lists import json_response, parse_period, parse_time
from firstfault_server.api.parts import WithPart, part
from firstfault_server.api.problems import Problem
from firstfault_server.api.services import Services, WithServices
from firstfault_server.api.shown import Shown
from firstfault_server.api.writes import Answer, IdempotencyKey, IfMatch, answer, audit, etag, new_id, wanted_version, writes_of
from firstfault_server.core import model
from firstfault_server.core.documents import note_document, rfc3339

router = APIRouter(prefix="/v1/incidents/{incident_id}", tags=["incidents"])

MAX_NOTES = 200
TRIES = 5
"""Compare-and-set without `If-Match` is repeated so often when others write at the same time."""

Name = Annotated[str, Field(min_length=1, max_length=200)]
Change = Callable[[model.Triage], model.Triage]


class Body(BaseModel):
    """Base of request bodies: unknown members are refused."""

    model_config = ConfigDict(extra="forbid", strict=True)


class By(Body):
    """Who did it, when the key stands for several people."""

    by: Name | None = None


class Mute(By):
    """How long to be quiet; neither: until unmuted. `until` null with `unmute` ends it."""

    until: str | None = Field(default=None, max_length=64, description="RFC 3339.")
    period: str | None = Field(default=None, max_length=8, description="2h, 7d … from now.")
    unmute: bool = False


class Assign(By):
    """To whom; null: to nobody."""

    assignee: Name | None


class NewNote(By):
    """What to write down."""

    text: str = Field(min_length=1, max_length=10_000)


FOREVER_NS = 2**63 - 1


@router.post("/ack", response_model=schemas.Incident)
def acknowledge(
    request: Request, services: WithServices, caller: Writer, incident_id: str, body: By | None = None,
    if_match: IfMatch = None, idempotency_key: IdempotencyKey = None,
) -> Response:  # fmt: skip
    """Somebody is on it."""
    marks = body or By()
    now_ns, person = services.clock.now_ns(), marks.by or caller.actor

    def change(triage: model.Triage) -> model.Triage:
        return msgspec.structs.replace(triage, ack_by=person, ack_at_ns=now_ns)

    return _write(request, services, caller, incident_id, "ack", marks, change, if_match, idempotency_key)


@router.post("/resolve", response_model=schemas.Incident)
def resolve(
    request: Request, services: WithServices, caller: Writer, incident_id: str, body: By | None = None,
    if_match: IfMatch = None, idempotency_key: IdempotencyKey = None,
) -> Response:  # fmt: skip
    """It is over."""
    marks = body or By()
    now_ns, person = services.clock.now_ns(), marks.by or caller.actor

    def change(triage: model.Triage) -> model.Triage:
        return msgspec.structs.replace(triage, resolved_by=person, resolved_at_ns=now_ns, reopened_at_ns=None)

    return _write(request, services, caller, incident_id, "resolve", marks, change, if_match, idempotency_key)


@router.post("/reopen", response_model=schemas.Incident)
def reopen(
    request: Request, services: WithServices, caller: Writer, incident_id: str, body: By | None = None,
    if_match: IfMatch = None, idempotency_key: IdempotencyKey = None,
) -> Response:  # fmt: skip
    """It is not over after all."""
    marks = body or By()
    now_ns = services.clock.now_ns()

    def change(triage: model.Triage) -> model.Triage:
        return msgspec.structs.replace(triage, resolved_by=None, resolved_at_ns=None, reopened_at_ns=now_ns, ack_by=None, ack_at_ns=None)

    return _write(request, services, caller, incident_id, "reopen", marks, change, if_match, idempotency_key)


@router.post("/mute", response_model=schemas.Incident)
def mute(
    request: Request, services: WithServices, caller: Writer, incident_id: str, body: Mute | None = None,
    if_match: IfMatch = None, idempotency_key: IdempotencyKey = None,
) -> Response:  # fmt: skip
    """No messages about it, for a time or until unmuted."""
    marks = body or Mute()
    now_ns = services.clock.now_ns()
    if sum((marks.until is not None, marks.period is not None, marks.unmute)) > 1:
        raise Problem(400, "mute: say one of until, period, unmute", "invalid")
    until_ns: int | None = FOREVER_NS
    if marks.unmute:
        until_ns = None
    elif marks.until is not None:
        until_ns = parse_time("until", marks.until)
    elif marks.period is not None:
        until_ns = min(now_ns + parse_period(marks.period), FOREVER_NS)

    def change(triage: model.Triage) -> model.Triage:
        if until_ns is not None and until_ns <= now_ns:
            field = "period" if marks.until is None else "until"
            raise Problem(400, f"{field}: the mute would end at once; give a time after {rfc3339(now_ns)}", "invalid")
        return msgspec.structs.replace(triage, muted_until_ns=until_ns)

    return _write(request, services, caller, incident_id, "unmute" if marks.unmute else "mute", marks, change, if_match, idempotency_key)


@router.post("/assign", response_model=schemas.Incident)
def assign(
    request: Request, services: WithServices, caller: Writer, incident_id: str, body: Assign,
    if_match: IfMatch = None, idempotency_key: IdempotencyKey = None,
) -> Response:  # fmt: skip
    """Give it to a person."""

    def change(triage: model.Triage) -> model.Triage:
        return msgspec.structs.replace(triage, assignee=body.assignee)

    return _write(request, services, caller, incident_id, "assign", body, change, if_match, idempotency_key)


@router.get("/notes", response_model=schemas.NotePage)
def notes(services: WithServices, caller: Reader, incident_id: str, wanted: WithPart) -> Response:
    """Notes, oldest first."""
    services.incidents.incident(caller.tenant, incident_id)
    triage = services.triage.triage(caller.tenant, incident_id)
    page, following = part("notes", wanted, caller, services, [incident_id]).in_order(triage.notes)
    document = {"items": [note_document(note) for note in page], "next_cursor": following}
    return json_response(document, headers={"etag": etag(triage.version)})


@router.post("/notes", response_model=schemas.Incident, status_code=201)
def add_note(
    request: Request, services: WithServices, caller: Writer, incident_id: str, body: NewNote,
    if_match: IfMatch = None, idempotency_key: IdempotencyKey = None,
) -> Response:  # fmt: skip
    """Write something down."""
    note_id = new_id(services, caller, incident_id, idempotency_key)
    note = model.Note(id=note_id, author=body.by or caller.actor, time_ns=services.clock.now_ns(), text=body.text)

    def change(triage: model.Triage) -> model.Triage:
        if any(known.id == note_id for known in triage.notes):
            return triage
        if len(triage.notes) >= MAX_NOTES:
            raise Problem(400, f"notes: an incident holds at most {MAX_NOTES}", "invalid")
        return msgspec.structs.replace(triage, notes=[*triage.notes, note])

    return _write(request, services, caller, incident_id, "note", body, change, if_match, idempotency_key, 201)


def _write(
    request: Request, services: Services, caller: Principal, incident_id: str, action: str, body: Body, change: Change,
    if_match: str | None, idempotency_key: str | None, status: int = 200,
) -> Response:  # fmt: skip
    version = wanted_version(if_match)
    detail: dict[str, Any] = body.model_dump(exclude_none=True)

    def write() -> Answer:
        incident = services.incidents.incident(caller.tenant, incident_id)
        triage = _compare_and_set(services, caller, incident_id, action, detail, change, version)
        services.triage_changed(incident, triage)
        services.changes.publish([(caller.tenant, incident_id)])
        return answer(Shown(services, caller.tenant).document(incident, triage), status, etag(triage.version))

    return writes_of(request).once(request, services, caller, idempotency_key, detail, write)


def _compare_and_set(
    services: Services, caller: Principal, incident_id: str, action: str, detail: dict[str, Any], change: Change, version: int | None
) -> model.Triage:
    for attempt in range(1, TRIES + 1):
        stored = services.triage.triage(caller.tenant, incident_id)
        if version is not None and stored.version != version:
            raise ports.VersionConflict(f"the triage version is {stored.version}")
        changed = change(stored)
        try:
            return services.triage.put_triage(changed, audit(services, caller, action, incident_id, detail))
        except ports.VersionConflict:
            if version is not None or attempt == TRIES:
                raise
    raise AssertionError("unreachable")
