"""Counts events by fingerprint: one request for the times of all, one for what a page says of each."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from firstfault_server.adapters.elasticsearch.cluster import Cluster
from firstfault_server.adapters.elasticsearch.documents import unpack
from firstfault_server.adapters.elasticsearch.paging import newest_first
from firstfault_server.adapters.elasticsearch.query import Query
from firstfault_server.adapters.elasticsearch.templates import EVENTS
from firstfault_server.core import fingerprints, model

BUCKETS: Final = 5000
DESCRIBED: Final = 250
"""Fingerprints of one request."""
FIELD: Final = "search.fingerprint"
LATEST: Final = {"latest": {"max": {"field": "time_ns"}}}


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A fingerprint in a list; its key is the exact time and the name."""

    key: tuple[int, str]
    summary: dict[str, Any]


def rows(cluster: Cluster, chosen: Query, limit: int, after: tuple[int, str] | None) -> list[Row]:
    """Fingerprints of the chosen events, latest first, from after a key on; one more than `limit` if there are more."""
    # Aggregations count in floating point. That may make two times equal, but never turns them around.
    rough = sorted(_rough_times(cluster, chosen), reverse=True)
    doubtful = 0
    if after is not None:
        start = float(after[0])
        rough = [each for each in rough if each[0] <= start]
        doubtful = sum(latest == start for latest, _ in rough)
    wanted = rough[: limit + 1 + doubtful]
    names = [name for latest, name in rough if latest >= wanted[-1][0]] if wanted else []
    found = sorted(_described(cluster, chosen, names), key=lambda row: row.key, reverse=True)
    return [row for row in found if after is None or row.key < after][: limit + 1]


def _rough_times(cluster: Cluster, chosen: Query) -> Iterator[tuple[float, str]]:
    """(about when last, name) of each there is."""
    after: dict[str, Any] = {}
    while True:
        composite = {"size": BUCKETS, "sources": [{"name": {"terms": {"field": FIELD}}}]} | after
        found = _buckets(cluster, chosen, {"each": {"composite": composite, "aggs": LATEST}})
        for bucket in found.get("buckets", []):
            yield bucket["latest"]["value"], bucket["key"]["name"]
        if "after_key" not in found:
            return
        after = {"after": found["after_key"]}


def _described(cluster: Cluster, chosen: Query, names: Sequence[str]) -> Iterator[Row]:
    parts: dict[str, Any] = {
        # Sort values are exact.
        "newest": {"top_hits": {"size": 1, "sort": newest_first(), "_source": ["record"]}},
        "oldest": {"top_hits": {"size": 1, "sort": [{"time_ns": "asc"}], "_source": False}},
    }
    for place in ("run", "node"):
        # Of a record without a run its name is empty, which counts as none.
        latest_first = {"field": f"search.{place}", "size": fingerprints.NAMED + 1, "order": {"latest": "desc"}}
        parts[place] = {"terms": latest_first, "aggs": LATEST}
    for start in range(0, len(names), DESCRIBED):
        asked = list(names[start : start + DESCRIBED])
        query = {"bool": {"filter": [chosen, {"terms": {FIELD: asked}}]}}
        each = {"terms": {"field": FIELD, "include": asked, "size": len(asked)}, "aggs": parts}
        for bucket in _buckets(cluster, query, {"each": each}).get("buckets", []):
            newest, oldest = (bucket[name]["hits"]["hits"][0] for name in ("newest", "oldest"))
            event = unpack(newest["_source"]["record"], model.Event)
            first_ns, last_ns = oldest["sort"][0], newest["sort"][0]
            runs = [(run["key"], "") for run in bucket["run"]["buckets"]]
            nodes = [("", node["key"]) for node in bucket["node"]["buckets"]]
            summary = fingerprints.summary(event, bucket["doc_count"], first_ns, last_ns, [*runs, *nodes])
            yield Row(key=(last_ns, bucket["key"]), summary=summary)


def _buckets(cluster: Cluster, query: Query, aggregations: dict[str, Any]) -> dict[str, Any]:
    answer = cluster.ask(EVENTS, size=0, track_total_hits=False, query=query, aggs=aggregations)
    found: dict[str, Any] = answer.get("aggregations", {}).get("each", {})
    return found
