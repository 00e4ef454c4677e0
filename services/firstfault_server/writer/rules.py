"""All that is pruned, by which age and size, in the order in which it has to go: the same in both deployments."""

from collections.abc import Sequence
from typing import Protocol

from firstfault_server.writer.history import Days, History
from firstfault_server.writer.retention import Extent, Kept


class Limits(Days, Protocol):
    """How long each kind is kept, and how much of what grows with the load."""

    retention_events_days: float
    retention_events_bytes: int
    retention_rollups_days: float
    retention_rollups_bytes: int


class Measured(Protocol):
    """A store that drops pieces as a whole and knows their sizes."""

    def prune(self, before_ns: int) -> object:
        """Drop what ends before a time; an int that it returns counts what went."""

    def extents(self) -> Sequence[Extent]:
        """Its pieces, oldest first."""


def retention_rules(limits: Limits, history: History, events: Measured, rollups: Measured) -> list[Kept]:
    """The rules for every store that grows."""
    return [
        *history.kept(limits),
        # After the others, since in SQLite it gives free pages of the file back.
        Kept(
            name="events",
            prune=events.prune,
            extents=events.extents,
            days=limits.retention_events_days,
            max_bytes=limits.retention_events_bytes,
        ),
        Kept(
            name="rollups",
            prune=rollups.prune,
            extents=rollups.extents,
            days=limits.retention_rollups_days,
            max_bytes=limits.retention_rollups_bytes,
        ),
    ]
