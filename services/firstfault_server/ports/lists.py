"""Requests for a list and the pages that answer them."""

from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

import msgspec

from firstfault_server.core.search import And, Expression

T = TypeVar("T")


class Page(msgspec.Struct, Generic[T], kw_only=True):
    """Items and the key after which the next page starts (None: that was all)."""

    items: list[T]
    next_key: list[Any] | None = None


class ListQuery(msgspec.Struct, kw_only=True, frozen=True):
    """A list request: newest first, event time half-open [since_ns, until_ns)."""

    tenant: str
    where: Expression = And()
    since_ns: int | None = None
    until_ns: int | None = None
    limit: int = 50
    after: tuple[Any, ...] | None = None
    """`next_key` of the page before."""


def walk(ask: Callable[[ListQuery], Page[T]], query: ListQuery, most: int | None = None) -> Iterator[T]:
    """Items of page after page, from where the query begins; no page is asked for once `most` items have come."""
    read = 0
    while most is None or read < most:
        page = ask(query)
        yield from page.items
        read += len(page.items)
        if page.next_key is None:
            return
        query = msgspec.structs.replace(query, after=tuple(page.next_key))
