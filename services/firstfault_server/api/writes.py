"""What writes share: JSON bodies, `If-Match`, and `Idempotency-Key`."""

import hashlib
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
from fastapi import Header, Request
from starlette.responses import Response

from firstfault_server import ports
from firstfault_server.api.access import Principal
from firstfault_server.api.lists import encode
from firstfault_server.api.problems import Problem
from firstfault_server.api.services import Services

_ETAG = re.compile(r'(?:W/)?"(\d{1,18})"\Z')

IfMatch = Annotated[str | None, Header(alias="If-Match", max_length=64, description="Version (the ETag); 412 when it has moved on.")]
IdempotencyKey = Annotated[
    str | None,
    Header(alias="Idempotency-Key", min_length=1, max_length=200, description="Repeating a write with the same key repeats its answer."),
]


def etag(version: int) -> str:
    """ETag of a version."""
    return f'"{version}"'


def wanted_version(if_match: str | None) -> int | None:
    """The version that `If-Match` names; None when any will do. Raises Problem 400."""
    if if_match is None or if_match.strip() == "*":
        return None
    match = _ETAG.match(if_match.strip())
    if match is None:
        raise Problem(400, 'If-Match: is an ETag, a number in quotes, or "*"', "invalid")
    return int(match.group(1))


def new_id(services: Services, caller: Principal, subject: str, key: str | None) -> str:
    """Id of what a write makes; with an idempotency key the same each time, so that it is found when the answer was lost."""
    if key is None:
        return services.new_id()
    return hashlib.sha256(f"{caller.tenant}\0{caller.actor}\0{subject}\0{key}".encode()).hexdigest()[:24]


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


@dataclass(frozen=True)
class Writes:
    """Runs writes so that one with an idempotency key happens once. One lock suffices: people write rarely."""

    lock: threading.Lock

    def once(
        self, request: Request, services: Services, caller: Principal, key: str | None, body: Any, write: Callable[[], Answer]
    ) -> Response:
        """The answer of `write`, or the one it gave before under this key. Raises Problem 400 for a key used for something else."""
        if key is None:
            return write().respond()
        asked = hashlib.sha256(msgspec.json.encode([request.method, request.url.path, body], order="sorted")).hexdigest()
        scoped = f"{caller.actor}:{key}"
        with self.lock:
            known = services.triage.recall(caller.tenant, scoped)
            if known is not None:
                if known[0] != asked:
                    raise Problem(400, "Idempotency-Key: was used for another request", "idempotency")
                return msgspec.msgpack.decode(known[1], type=Answer).respond()
            made = write()
            services.triage.remember(caller.tenant, scoped, asked, msgspec.msgpack.encode(made))
            return made.respond()


def writes_of(request: Request) -> Writes:
    """The guard of the app that serves this request."""
    writes: Writes = request.app.state.writes
    return writes
