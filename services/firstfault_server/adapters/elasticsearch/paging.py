"""Pages of what is sorted by (time, id), newest first."""

from collections.abc import Sequence
from typing import Any

from firstfault_server.adapters.elasticsearch.cluster import Cluster, Hit
from firstfault_server.adapters.elasticsearch.query import Query
from firstfault_server.adapters.elasticsearch.templates import Family
from firstfault_server.core.keyset import start_key
from firstfault_server.ports import ListQuery


def newest_first(within: str = "") -> list[dict[str, Any]]:
    """The order of lists. `within` starts the names of the fields when the thing is part of a document."""
    return [{f"{within}time_ns": "desc"}, {f"{within}id": "desc"}]


def page(
    cluster: Cluster, families: Sequence[Family], query: ListQuery, compiled: Query, fields: Sequence[str] = ("record",), within: str = ""
) -> tuple[list[Hit], list[Any] | None]:
    """Hits of a page, of things that are in several documents one, and the key of the next page. Raises SearchError."""
    after = start_key(query.after)
    following = {} if after is None else {"search_after": list(after)}
    # A thing lies in two documents at most.
    wanted = (query.limit + 1) * min(len(families), 2)
    hits = cluster.search(
        *families,
        query=compiled,
        size=wanted,
        sort=newest_first(within),
        source_includes=[f"{within}{field}" for field in fields],
        **following,
    )
    seen = {tuple(hit["sort"]): hit for hit in reversed(hits)}
    distinct = [hit for hit in hits if seen[tuple(hit["sort"])] is hit]
    kept = distinct[: query.limit]
    return kept, list(kept[-1]["sort"]) if len(distinct) > query.limit and kept else None
