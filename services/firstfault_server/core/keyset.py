"""Keyset pages: lists are sorted by (time, id), newest first, and the key of a page's last item starts the next page."""

from collections.abc import Sequence
from typing import Any

from firstfault_server.core.search_match import SearchError


def start_key(after: Sequence[Any] | None) -> tuple[int, str] | None:
    """(time, id) after which a page starts, None for the first page. Raises SearchError for a key that no page gave."""
    if after is None:
        return None
    match list(after):
        case [int() as time_ns, str() as item_id] if -(1 << 63) <= time_ns < 1 << 63:
            return time_ns, item_id
    raise SearchError("the page key is not one of this list")
