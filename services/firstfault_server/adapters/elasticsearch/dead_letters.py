"""What could not be used or stored, with the reason, so that nothing vanishes unexplained."""

from collections.abc import Sequence
from typing import Final

from firstfault_server.adapters.elasticsearch.cluster import Cluster, Refresh
from firstfault_server.adapters.elasticsearch.documents import dead_letter_document, document_id, unpack
from firstfault_server.adapters.elasticsearch.query import between, exactly
from firstfault_server.adapters.elasticsearch.templates import DEAD_LETTERS
from firstfault_server.core import model
from firstfault_server.core.keyset import start_key
from firstfault_server.ports import ListQuery, NotFound, Page

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

    def one(self, tenant: str, letter_id: str) -> model.DeadLetter:
        """Raises NotFound."""
        query = {"ids": {"values": [document_id(tenant, letter_id)]}}
        hits = self._cluster.search(DEAD_LETTERS, query=query, size=1, source_includes=["record"])
        if not hits:
            raise NotFound(f"no dead letter {letter_id!r}")
        return unpack(hits[0]["_source"]["record"], model.DeadLetter)

    def page(self, query: ListQuery) -> Page[model.DeadLetter]:
        """By time of receipt, newest first."""
        filters = [exactly("tenant", query.tenant)]
        if period := between(query.since_ns, query.until_ns):
            filters.append({"range": {"received_ns": period}})
        after = start_key(query.after)
        hits = self._cluster.search(
            DEAD_LETTERS,
            query={"bool": {"filter": filters}},
            size=query.limit + 1,
            sort=[{"received_ns": "desc"}, {"id": "desc"}],
            source_includes=["record"],
            **({} if after is None else {"search_after": list(after)}),
        )
        kept = hits[: query.limit]
        items = [unpack(hit["_source"]["record"], model.DeadLetter) for hit in kept]
        return Page(items=items, next_key=list(kept[-1]["sort"]) if len(hits) > query.limit and kept else None)
