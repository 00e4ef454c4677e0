"""Writes a batch so that a record which its store refuses costs none of its neighbours."""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeVar

from firstfault_server.ports import StoreUnavailable

T = TypeVar("T")
BROKEN: Final = 10
"""A store that refuses all of so many records has a fault of its own."""


class Refused(NamedTuple):
    """An item that cannot be stored, by its place in the batch."""

    place: int
    error: Exception


def store_each(write: Callable[[Sequence[T]], None], items: Sequence[T]) -> list[Refused]:
    """Write all items; those that were refused each on its own. Raises StoreUnavailable; some may be written then."""
    refused = _store(write, items, 0)
    if len(refused) == len(items) >= BROKEN:
        raise StoreUnavailable(f"the store refuses everything: {type(refused[0].error).__name__}: {refused[0].error}") from refused[0].error
    return refused


def _store(write: Callable[[Sequence[T]], None], items: Sequence[T], start: int) -> list[Refused]:
    if not items:
        return []
    try:
        write(items)
    except StoreUnavailable:
        raise
    except Exception as error:
        # What a store raises for a record that it does not take depends on the store; the halves tell which it was.
        if len(items) == 1:
            return [Refused(start, error)]
        half = len(items) // 2
        return _store(write, items[:half], start) + _store(write, items[half:], start + half)
    return []
