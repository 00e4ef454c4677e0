"""What could not be used or stored, with the reason, so that nothing vanishes unexplained."""

from collections.abc import Sequence
from typing import Final

from firstfault_server.adapters.elasticsearch.cluster import Cluster, Refresh
from firstfault_server.adapters.elasticsearch.documents import dead_letter_document, unpack
from firstfault_server.adapters.elasticsearch.query import exactly
from firstfault_server.adapters.elasticsearch.templates import DEAD_LETTERS
from firstfault_server.core import model

MOST_BYTES: Final = 64 << 10


class DeadLetters:
    """Kept by the day, until they are too old."""

    def __init__(self, cluster: Cluster, *, refresh: Refresh = False) -> None:
        self._cluster, self._refresh = cluster, refresh

    def write(self, letters: Sequence[model.DeadLetter]) -> None:
        """Keep them. Raises StoreUnavailable."""
        refused = self._cluster.create(DEAD_LETTERS, [dead_letter_document(letter) for letter in letters], refresh=self._refresh)
        if refused:
            raise self._cluster.unavailable(f"refuses dead letters: {refused[0].reason}")

    def newest(self, tenant: str, limit: int) -> list[model.DeadLetter]:
        """Newest first."""
        order = [{"received_ns": "desc"}, {"id": "desc"}]
        hits = self._cluster.search(DEAD_LETTERS, query=exactly("tenant", tenant), size=limit, sort=order, source_includes=["record"])
        return [unpack(hit["_source"]["record"], model.DeadLetter) for hit in hits]
