"""Parameters that all lists share, and pages with cursors."""

import datetime
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Final, TypeVar

import orjson
from fastapi import Depends, Query
from starlette.responses import Response

from firstfault_server import ports
from firstfault_server.api import cursors
from firstfault_server.api.access import Principal
from firstfault_server.api.problems import Problem
from firstfault_server.api.services import Services
from firstfault_server.core import query as search
from firstfault_server.core.documents import Document
from firstfault_server.core.search import And, Expression
from firstfault_server.core.search_fields import Fields

T = TypeVar("T")
MAX_LIMIT: Final = 200
LONGEST_PERIOD: Final = 64
"""Characters of a period as asked for, so that one that is none is answered with an example."""
_UNITS_S: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_PERIOD = re.compile(r"([0-9]{1,6})([smhdw])\Z")
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)


@dataclass(frozen=True, kw_only=True)
class ListParameters:
    """Raw values, before the clock and the search keys of the list are known."""

    q: str
    since: str | None
    until: str | None
    period: str | None
    limit: int
    cursor: str | None


_Search = Annotated[str, Query(max_length=search.MAX_LENGTH, description='Search, for instance `is:open rank:>8 "free text"`.')]
_Since = Annotated[str | None, Query(max_length=64, description="RFC 3339; events at this time are inside.")]
_Until = Annotated[str | None, Query(max_length=64, description="RFC 3339; events at this time are outside.")]
_Period = Annotated[str | None, Query(max_length=LONGEST_PERIOD, description="Instead of since: the last 30m, 24h, 7d …")]
_Limit = Annotated[int, Query(ge=1, le=MAX_LIMIT, description="Items a page.")]
_Cursor = Annotated[str | None, Query(max_length=2048, description="`next_cursor` of the page before.")]


def _parameters(
    q: _Search = "",
    since: _Since = None,
    until: _Until = None,
    period: _Period = None,
    limit: _Limit = 50,
    cursor: _Cursor = None,
) -> ListParameters:
    return ListParameters(q=q, since=since, until=until, period=period, limit=limit, cursor=cursor)


def _without_search(
    since: _Since = None, until: _Until = None, period: _Period = None, limit: _Limit = 50, cursor: _Cursor = None
) -> ListParameters:
    return ListParameters(q="", since=since, until=until, period=period, limit=limit, cursor=cursor)


WithList = Annotated[ListParameters, Depends(_parameters)]
WithPeriod = Annotated[ListParameters, Depends(_without_search)]
"""Of a list that cannot be searched."""


def parse_time(name: str, text: str) -> int:
    """Nanoseconds of an RFC 3339 time with offset. Raises Problem 400."""
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise Problem(400, f"{name}: {text!r} is not an RFC 3339 time, for instance 2026-11-30T18:00:00Z", "invalid") from None
    if moment.tzinfo is None:
        raise Problem(400, f"{name}: {text!r} needs an offset or Z, for instance 2026-11-30T18:00:00Z", "invalid")
    try:
        elapsed = moment - _EPOCH
    except OverflowError:
        raise Problem(400, f"{name}: {text!r} is out of range", "invalid") from None
    nanoseconds = (elapsed.days * 86400 + elapsed.seconds) * 1_000_000_000 + elapsed.microseconds * 1000
    return min(max(nanoseconds, 0), 2**63 - 1)


def parse_period(text: str) -> int:
    """Nanoseconds of `90s`, `30m`, `24h`, `7d`, `2w`. Raises Problem 400."""
    match = _PERIOD.match(text)
    if match is None:
        raise Problem(400, f"period: {text!r} is not a number with s, m, h, d or w, for instance 30m, 24h or 7d", "invalid")
    return int(match.group(1)) * _UNITS_S[match.group(2)] * 1_000_000_000


def time_range(since: str | None, until: str | None, period: str | None, now_ns: int) -> tuple[int | None, int | None]:
    """Half-open range in nanoseconds. Raises Problem 400 for one that is inverted or said twice."""
    if period is not None and (since is not None or until is not None):
        raise Problem(400, "period: cannot be combined with since or until", "invalid")
    since_ns = parse_time("since", since) if since is not None else None
    until_ns = parse_time("until", until) if until is not None else None
    if period is not None:
        since_ns = max(now_ns - parse_period(period), 0)
    if since_ns is not None and until_ns is not None and since_ns > until_ns:
        raise Problem(400, "since: lies after until", "invalid")
    return since_ns, until_ns


@dataclass(frozen=True, kw_only=True)
class Listing:
    """One list request after validation: what to ask the store, and how to say where the next page starts."""

    query: ports.ListQuery
    _bound_to: str
    _secret: bytes

    def respond(self, page: ports.Page[T], document: Callable[[T], Document]) -> Response:
        """The page as JSON."""
        following = None
        if page.next_key is not None:
            position = cursors.Position(list(page.next_key), self.query.since_ns, self.query.until_ns)
            following = cursors.encode(self._secret, self._bound_to, position)
        return json_response({"items": [document(item) for item in page.items], "next_cursor": following})


def listing(
    name: str,
    parameters: ListParameters,
    principal: Principal,
    services: Services,
    fields: Fields,
    also: Expression | None = None,
) -> Listing:
    """Validate a list request. `fields` are the search keys of the list, `also` narrows it further. Raises Problem 400."""
    where = search.parse(parameters.q, fields)
    if also is not None:
        where = And(parts=(also, where))
    bound_to = orjson.dumps(
        [name, principal.tenant, parameters.q, parameters.since, parameters.until, parameters.period], default=str
    ).decode()
    since_ns, until_ns = time_range(parameters.since, parameters.until, parameters.period, services.clock.now_ns())
    after: tuple[Any, ...] | None = None
    position = position_of(services, bound_to, parameters.cursor)
    if position is not None:
        after, since_ns, until_ns = tuple(position.key), position.since_ns, position.until_ns
    asked = ports.ListQuery(tenant=principal.tenant, where=where, since_ns=since_ns, until_ns=until_ns, limit=parameters.limit, after=after)
    return Listing(query=asked, _bound_to=bound_to, _secret=services.cursor_secret)


def position_of(services: Services, bound_to: str, cursor: str | None) -> cursors.Position | None:
    """Where a page starts; None for the first one. Raises Problem 400."""
    if cursor is None:
        return None
    try:
        return cursors.decode(services.cursor_secret, bound_to, cursor)
    except cursors.CursorError as error:
        raise Problem(400, f"cursor: {error}", "cursor") from error


def json_response(document: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A JSON response; text that is no valid Unicode is kept as escapes, never an error."""
    return Response(encode(document), status, headers=headers, media_type="application/json")


def encode(document: Any) -> bytes:
    """Compact JSON in UTF-8."""
    try:
        return orjson.dumps(document)
    except orjson.JSONEncodeError:
        import json

        return json.dumps(document, separators=(",", ":"), allow_nan=False).encode("ascii")
