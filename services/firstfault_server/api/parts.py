"""Pages of lists that are read whole from their store: the numbers of a run, and other small lists."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

import orjson
from fastapi import Depends, Query

from firstfault_server.api import cursors
from firstfault_server.api.access import Principal
from firstfault_server.api.lists import MAX_LIMIT, position_of
from firstfault_server.api.services import Services

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class PartParameters:
    """Which part of a list is wanted."""

    limit: int
    cursor: str | None


def _parameters(
    limit: Annotated[int, Query(ge=1, le=MAX_LIMIT, description="Items a page.")] = MAX_LIMIT,
    cursor: Annotated[str | None, Query(max_length=2048, description="`next_cursor` of the page before.")] = None,
) -> PartParameters:
    return PartParameters(limit=limit, cursor=cursor)


WithPart = Annotated[PartParameters, Depends(_parameters)]


@dataclass(frozen=True, kw_only=True)
class Part:
    """The part that one request asks for; `since_ns` and `until_ns` are what the first page meant."""

    since_ns: int | None
    until_ns: int | None
    _after: list[Any] | None
    _limit: int
    _bound_to: str
    _secret: bytes

    def cut(self, items: Iterable[T], key: Callable[[T], Sequence[Any]]) -> tuple[list[T], str | None]:
        """The items of this page in the order of their keys, which are unique, and the cursor of the next page."""
        ordered = sorted(((list(key(item)), item) for item in items), key=lambda pair: pair[0])
        left = [pair for pair in ordered if self._after is None or pair[0] > self._after]
        page = left[: self._limit]
        following = None
        if len(left) > len(page):
            following = cursors.encode(self._secret, self._bound_to, cursors.Position(page[-1][0], self.since_ns, self.until_ns))
        return [item for _, item in page], following

    def in_order(self, items: Sequence[T]) -> tuple[list[T], str | None]:
        """The same for a list that stays in the order given and grows at its end."""
        page, following = self.cut(enumerate(items), lambda pair: (pair[0],))
        return [item for _, item in page], following


def part(
    name: str,
    parameters: PartParameters,
    principal: Principal,
    services: Services,
    filters: Sequence[object] = (),
    times: tuple[int | None, int | None] = (None, None),
) -> Part:
    """The part asked for of a list that `name` and `filters` describe. Raises Problem 400."""
    bound_to = orjson.dumps([name, principal.tenant, *filters], default=str).decode()
    position = position_of(services, bound_to, parameters.cursor)
    since_ns, until_ns = (position.since_ns, position.until_ns) if position else times
    return Part(
        since_ns=since_ns, until_ns=until_ns, _after=position.key if position else None, _limit=parameters.limit,
        _bound_to=bound_to, _secret=services.cursor_secret,
    )  # fmt: skip
