"""What the embedded host makes durable together."""

from collections.abc import Iterable
from typing import Protocol

import msgspec

from firstfault_server.core import model
from firstfault_server.ports.delivery import Message


class Commit(msgspec.Struct, kw_only=True):
    """What the embedded host makes durable in one transaction after a stretch of the log."""

    position: str
    snapshots: dict[tuple[str, str], bytes | None] = {}
    """(stage, key) -> encoded state with what the host keeps beside it; None removes it."""
    incidents: list[model.Incident] = []
    runs: list[model.RunStatus] = []
    messages: list[Message] = []


class Checkpoint(Protocol):
    """Embedded only: snapshots, log position, incidents and outbox commit together."""

    def commit(self, commit: Commit) -> None:
        """All or nothing. Raises StorageFull."""

    def position(self) -> str | None:
        """Position of the last commit."""

    def snapshots(self) -> Iterable[tuple[str, str, bytes]]:
        """(stage, key, state) of everything kept."""
