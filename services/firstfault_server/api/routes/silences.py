"""Silences: for a time, no messages about the incidents that a search selects. Each change is audited."""

from typing import Annotated

import msgspec
from fastapi import APIRouter
from pydantic import Field
from starlette.responses import Response

from firstfault_server import ports
from firstfault_server.api import schemas
from firstfault_server.api.access import Principal, Reader
from firstfault_server.api.lists import LONGEST_PERIOD, WithList, json_response, listing, parse_period, parse_time
from firstfault_server.api.problems import Problem
from firstfault_server.api.services import Services, WithServices
from firstfault_server.api.writes import Answer, By, WithVersionedWrite, WithWrite, answer, etag
from firstfault_server.core import model, search_fields
from firstfault_server.core.documents import Document, rfc3339
from firstfault_server.core.query import MAX_LENGTH
from firstfault_server.core.silencing import matcher, state_at

router = APIRouter(prefix="/v1/silences", tags=["alerts"])

LATEST_NS = 2**63 - 1
Time = Annotated[str, Field(max_length=64, description="RFC 3339.")]


class NewSilence(By):
    """What to keep quiet, how long, and why. One of `ends_at` and `period` says when it ends."""

    where: str = Field(min_length=1, max_length=MAX_LENGTH, description="`q=` search that an incident must match.")
    comment: str = Field(min_length=1, max_length=2000)
    starts_at: Time | None = None
    """Default: now."""
    ends_at: Time | None = None
    period: str | None = Field(default=None, max_length=LONGEST_PERIOD, description="2h, 7d … from its start.")


def silence_document(silence: model.Silence, now_ns: int) -> Document:
    """A silence as it stands now."""
    return {
        "id": silence.id,
        "where": silence.where,
        "state": state_at(silence, now_ns),
        "starts_at": rfc3339(silence.starts_ns),
        "ends_at": rfc3339(silence.ends_ns),
        "author": silence.author,
        "comment": silence.comment,
        "created_at": rfc3339(silence.created_ns),
        "version": silence.version,
    }


@router.get("", response_model=schemas.SilencePage)
def list_silences(services: WithServices, caller: Reader, parameters: WithList) -> Response:
    """Silences, newest first; `q` takes `is:pending`, `is:active`, `is:ended` and `author:`."""
    wanted = listing("silences", parameters, caller, services, search_fields.SILENCE)
    now_ns = services.clock.now_ns()
    return wanted.respond(services.silences.silences(wanted.query, now_ns), lambda silence: silence_document(silence, now_ns))


@router.get("/{silence_id}", response_model=schemas.Silence)
def show_silence(services: WithServices, caller: Reader, silence_id: str) -> Response:
    """One silence."""
    silence = services.silences.silence(caller.tenant, silence_id)
    return json_response(silence_document(silence, services.clock.now_ns()), headers={"etag": etag(silence.version)})


@router.post("", response_model=schemas.Silence, status_code=201)
def create_silence(asked: WithWrite, body: NewSilence) -> Response:
    """Send no messages about what the search selects; when it ends, what is still open is told."""
    detail = body.model_dump(exclude_none=True)
    silence_id = asked.new_id("silence")
    services, caller = asked.services, asked.caller

    def write() -> Answer:
        silence = _made(services, caller, body, silence_id)
        if len(services.silences.ending_after(caller.tenant, silence.created_ns)) >= ports.MAX_SILENCES:
            raise Problem(400, f"a tenant has at most {ports.MAX_SILENCES} silences that have not ended", "invalid")
        try:
            written = services.silences.put_silence(silence, asked.audit("silence", silence.id, detail))
        except ports.VersionConflict:
            # The same request was answered before, and the answer was lost with the process.
            written = services.silences.silence(caller.tenant, silence.id)
        return _answer(services, written, 201)

    return asked.once(detail, write)


@router.post("/{silence_id}/expire", response_model=schemas.Silence)
def expire_silence(asked: WithVersionedWrite, silence_id: str, body: By | None = None) -> Response:
    """End it now; one that has ended stays as it is."""
    version = asked.wanted_version()
    services, caller = asked.services, asked.caller
    detail = (body or By()).model_dump(exclude_none=True)

    def write() -> Answer:
        stored = services.silences.silence(caller.tenant, silence_id)
        if version is not None and stored.version != version:
            raise ports.VersionConflict(f"the version of the silence is {stored.version}")
        now_ns = services.clock.now_ns()
        if state_at(stored, now_ns) == "ended":
            return _answer(services, stored)
        ended = msgspec.structs.replace(stored, starts_ns=min(stored.starts_ns, now_ns), ends_ns=now_ns)
        return _answer(services, services.silences.put_silence(ended, asked.audit("expire", silence_id, detail)))

    return asked.once(detail, write)


def _made(services: Services, caller: Principal, body: NewSilence, silence_id: str) -> model.Silence:
    """The silence asked for. Raises Problem and QueryError."""
    matcher(body.where)
    now_ns = services.clock.now_ns()
    starts_ns = now_ns if body.starts_at is None else parse_time("starts_at", body.starts_at)
    if (body.ends_at is None) == (body.period is None):
        raise Problem(400, "silence: say one of ends_at and period", "invalid")
    field, ends_ns = "ends_at", 0
    if body.ends_at is not None:
        ends_ns = parse_time("ends_at", body.ends_at)
    elif body.period is not None:
        field, ends_ns = "period", min(starts_ns + parse_period(body.period), LATEST_NS)
    if ends_ns <= max(now_ns, starts_ns):
        raise Problem(400, f"{field}: the silence would never hold; let it end after {rfc3339(max(now_ns, starts_ns))}", "invalid")
    return model.Silence(
        id=silence_id, tenant=caller.tenant, where=body.where, starts_ns=starts_ns, ends_ns=ends_ns, author=body.by or caller.actor,
        comment=body.comment, created_ns=now_ns,
    )  # fmt: skip


def _answer(services: Services, silence: model.Silence, status: int = 200) -> Answer:
    return answer(silence_document(silence, services.clock.now_ns()), status, etag(silence.version))
