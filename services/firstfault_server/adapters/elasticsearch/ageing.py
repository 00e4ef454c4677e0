"""Dropping what is old: whole days as indices, the rest of a day one by one."""

from typing import Any, Final

from elasticsearch import Elasticsearch

from firstfault_server.adapters.elasticsearch.connection import Connection
from firstfault_server.adapters.elasticsearch.documents import DAY_NS, start_of_day
from firstfault_server.adapters.elasticsearch.query import long
from firstfault_server.adapters.elasticsearch.templates import Family

AT_ONCE: Final = 1000


class Ageing:
    """Retention without lifecycle management, scripts or deletion by query, which not every cluster has."""

    def __init__(self, client: Elasticsearch, connection: Connection) -> None:
        self._client, self._connection = client, connection

    def prune(self, family: Family, before_ns: int) -> int:
        """Drop what was received earlier; how many records went. Raises StoreUnavailable."""
        gone = 0
        with self._connection.asking(f"drop old {family.name}"):
            for start_ns, index, _ in self._days(family):
                if start_ns + DAY_NS <= before_ns:
                    gone += self._client.count(index=index)["count"]
                    self._client.indices.delete(index=index)
                elif start_ns < before_ns:
                    gone += self._thin(index, before_ns)
        return gone

    def extents(self, family: Family) -> list[tuple[int, int]]:
        """(end, bytes) of each day, oldest first. Raises StoreUnavailable."""
        with self._connection.asking(f"measure {family.name}"):
            return [(start_ns + DAY_NS, size) for start_ns, _, size in self._days(family)]

    def _days(self, family: Family) -> list[tuple[int, str, int]]:
        """(start, index, bytes) of each day."""
        pattern = family.index(self._connection.prefix, "*")
        found: dict[str, Any] = self._client.indices.stats(index=pattern, metric="store").get("indices", {})
        days = []
        for index, stats in found.items():
            try:
                start_ns = start_of_day(index[len(pattern) - 1 :])
            except ValueError:
                # Somebody else's index that happens to fit the pattern.
                continue
            days.append((start_ns, index, int(stats["total"]["store"]["size_in_bytes"])))
        return sorted(days)

    def _thin(self, index: str, before_ns: int) -> int:
        gone = 0
        query = {"range": {"received_ns": {"lt": long(before_ns)}}}
        while True:
            self._client.indices.refresh(index=index)
            hits = self._client.search(index=index, query=query, size=AT_ONCE, source=False)["hits"]["hits"]
            if not hits:
                return gone
            answer = self._client.bulk(operations=[{"delete": {"_index": index, "_id": hit["_id"]}} for hit in hits], refresh=True)
            gone += sum(item["delete"]["status"] == 200 for item in answer["items"])
