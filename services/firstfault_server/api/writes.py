"""What writes share: JSON bodies, `If-Match`, and `Idempotency-Key`."""

import hashlib
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
from fastapi import Depends, Header, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from firstfault_server import ports
from firstfault_server.api.access import Principal, Writer
from firstfault_server.api.lists import encode
from firstfault_server.api.problems import Problem
from firstfault_server.api.services import Services, WithServices

_ETAG = re.compile(r'(?:W/)?"(\d{1,18})"\Z')

IfMatch = Annotated[str | None, Header(alias="If-Match", max_length=64, description="Version (the ETag); 412 when it has moved on.")]
IdempotencyKey = Annotated[
    str | None,
    Header(alias="Idempotency-Key", min_length=1, max_length=200, description="Repeating a write with the same key repeats its answer."),
]

Name = Annotated[str, Field(min_length=1, max_length=200)]


class Body(BaseModel):
    """Base of request bodies: unknown members are refused."""

    model_config = ConfigDict(extra="forbid", strict=True)


class By(Body):
    """Who did it, when the key stands for several people."""

    by: Name | None = None


def etag(version: int) -> str:
    """ETag of a version."""
    return f'"{version}"'


def audit(
    services: Services, caller: Principal, action: str, subject: str, detail: dict[str, Any], tenant: str | None = None
) -> ports.Audit:
    """The audit entry of a change that the caller makes now; `tenant` where it is not the caller's own."""
    return ports.Audit(
        id=services.new_id(), tenant=tenant or caller.tenant, time_ns=services.clock.now_ns(), actor=caller.actor, action=action,
        subject=subject, detail=detail,
    )  # fmt: skip


class Answer(msgspec.Struct, array_like=True):
    """A remembered answer."""

    status: int
    etag: str
    body: bytes

    def respond(self) -> Response:
        """As a response."""
        return Response(self.body, self.status, headers={"etag": self.etag} if self.etag else {}, media_type="application/json")


def answer(document: Any, status: int = 200, tag: str = "") -> Answer:
    """An answer with a JSON body."""
    return Answer(status, tag, encode(document))


@dataclass(frozen=True, kw_only=True)
class Write:
    """A request that writes: who sends it, and what its headers demand. Depended on by routes."""

    request: Request
    services: WithServices
    caller: Writer
    idempotency_key: IdempotencyKey = None

    def new_id(self, subject: str) -> str:
        """Id of what a write makes; with an idempotency key the same each time, so that it is found when the answer was lost."""
        if self.idempotency_key is None:
            return self.services.new_id()
        parts = (self.caller.tenant, self.caller.actor, subject, self.idempotency_key)
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]

    def audit(self, action: str, subject: str, detail: dict[str, Any]) -> ports.Audit:
        """Its audit entry."""
        return audit(self.services, self.caller, action, subject, detail)

    def once(self, body: Any, make: Callable[[], Answer]) -> Response:
        """The answer of `make`, or the one it gave before under this key. Raises Problem 400 for a key used for something else."""
        if self.idempotency_key is None:
            return make().respond()
        asked = hashlib.sha256(msgspec.json.encode([self.request.method, self.request.url.path, body], order="sorted")).hexdigest()
        scoped = f"{self.caller.actor}:{self.idempotency_key}"
        lock: threading.Lock = self.request.app.state.write_lock
        with lock:
            known = self.services.triage.recall(self.caller.tenant, scoped)
            if known is not None:
                if known[0] != asked:
                    raise Problem(400, "Idempotency-Key: was used for another request", "idempotency")
                return msgspec.msgpack.decode(known[1], type=Answer).respond()
            made = make()
            self.services.triage.remember(self.caller.tenant, scoped, asked, msgspec.msgpack.encode(made))
            return made.respond()


@dataclass(frozen=True, kw_only=True)
class VersionedWrite(Write):
    """A write to what has a version."""

    if_match: IfMatch = None

    def wanted_version(self) -> int | None:
        """The version that `If-Match` names; None when any will do. Raises Problem 400."""
        if self.if_match is None or self.if_match.strip() == "*":
            return None
        match = _ETAG.match(self.if_match.strip())
        if match is None:
            raise Problem(400, 'If-Match: is an ETag, a number in quotes, or "*"', "invalid")
        return int(match.group(1))


WithWrite = Annotated[Write, Depends()]
WithVersionedWrite = Annotated[VersionedWrite, Depends()]
