"""Silences."""

from datetime import datetime
from typing import Literal

from firstfault_server.api.schemas.base import Cursor, Shape


class Silence(Shape):
    """No messages about the incidents that `where` selects, from `starts_at` until just before `ends_at`; `version` is the ETag."""

    id: str
    where: str
    state: Literal["pending", "active", "ended"]
    starts_at: datetime
    ends_at: datetime
    author: str
    comment: str
    created_at: datetime
    version: int


class SilencePage(Shape):
    """A page of silences."""

    items: list[Silence]
    next_cursor: Cursor
