"""A checkpoint that says which incidents a commit has changed, after the commit."""

from collections.abc import Callable, Iterable

from firstfault_server import ports


class PublishingCheckpoint:
    """Passes everything on to another checkpoint."""

    def __init__(self, inner: ports.Checkpoint, publish: Callable[[Iterable[tuple[str, str]]], None]) -> None:
        self._inner = inner
        self._publish = publish

    def commit(self, commit: ports.Commit) -> None:
        """All or nothing. Raises StorageFull, StoreUnavailable."""
        self._inner.commit(commit)
        self._publish([(incident.tenant, incident.id) for incident in commit.incidents])

    def position(self) -> str | None:
        """Position of the last commit."""
        return self._inner.position()

    def snapshots(self) -> Iterable[tuple[str, str, bytes]]:
        """(stage, key, state) of everything kept."""
        return self._inner.snapshots()
