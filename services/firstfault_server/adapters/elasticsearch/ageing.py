"""Dropping what is old: whole periods as indices, the rest of a period one by one."""

from typing import Any

from firstfault_server.adapters.elasticsearch.bulk import Action
from firstfault_server.adapters.elasticsearch.cluster import AT_ONCE, Cluster
from firstfault_server.adapters.elasticsearch.periods import bounds_of
from firstfault_server.adapters.elasticsearch.query import long
from firstfault_server.adapters.elasticsearch.templates import Family


class Ageing:
    """Retention without lifecycle management, scripts or deletion by query, which not every cluster has."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def prune(self, family: Family, before_ns: int) -> int:
        """Drop what was received earlier; how many records went. Raises StoreUnavailable."""
        gone = 0
        client = self._cluster.client
        with self._cluster.connection.asking(f"drop old {family.name}"):
            for (start_ns, end_ns), index, _ in self._periods(family):
                if end_ns <= before_ns:
                    client.indices.refresh(index=index)
                    gone += client.count(index=index)["count"]
                    client.indices.delete(index=index)
                elif start_ns < before_ns:
                    gone += self._thin(family, index, before_ns)
        return gone

    def extents(self, family: Family) -> list[tuple[int, int]]:
        """(end, bytes) of each period, oldest first. Raises StoreUnavailable."""
        with self._cluster.connection.asking(f"measure {family.name}"):
            return [(end_ns, size) for (_, end_ns), _, size in self._periods(family)]

    def _periods(self, family: Family) -> list[tuple[tuple[int, int], str, int]]:
        """(bounds, index, bytes) of each period."""
        pattern = self._cluster.index(family, "*")
        found: dict[str, Any] = self._cluster.client.indices.stats(index=pattern, metric="store").get("indices", {})
        periods = []
        for index, stats in found.items():
            try:
                bounds = bounds_of(family.unit, index[len(pattern) - 1 :])
            except ValueError:
                # Somebody else's index that happens to fit the pattern.
                continue
            periods.append((bounds, index, int(stats["total"]["store"]["size_in_bytes"])))
        return sorted(periods)

    def _thin(self, family: Family, index: str, before_ns: int) -> int:
        gone = 0
        query = {"range": {"received_ns": {"lt": long(before_ns)}}}
        while True:
            self._cluster.client.indices.refresh(index=index)
            hits = self._cluster.client.search(index=index, query=query, size=AT_ONCE, source=False)["hits"]["hits"]
            if not hits:
                return gone
            outcomes = self._cluster.write(family.name, [Action(verb="delete", index=index, id=hit["_id"]) for hit in hits])
            gone += sum(outcome.done for outcome in outcomes)
