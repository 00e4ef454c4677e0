"""Who delivers which message: claims by compare-and-set, which end by themselves when their owner has died."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from firstfault_server.adapters.elasticsearch.bulk import Action
from firstfault_server.adapters.elasticsearch.cluster import AT_ONCE, Cluster, Hit
from firstfault_server.adapters.elasticsearch.documents import unpack
from firstfault_server.adapters.elasticsearch.query import Query, any_of, long, plain
from firstfault_server.adapters.elasticsearch.templates import MESSAGES
from firstfault_server.ports import Message

LONGEST_DUE_FIRST: Final = [{"next_try_ns": "asc"}, {"created_ns": "asc"}, {"id": "asc"}]
WAITING: Final[Query] = {"term": {"state": "waiting"}}
RELEASED: Final = b'{"doc":{"owner":null,"claimed_until_ns":null}}'


class Claims:
    """Claims of one owner. Searches may lag behind: a claim meets the message as it was seen, or fails."""

    def __init__(self, cluster: Cluster, owner: str, lease_ns: int) -> None:
        self._cluster, self._owner, self._lease_ns = cluster, plain(owner), lease_ns

    def take(self, now_ns: int, limit: int) -> list[Message]:
        """Claim what is due and free, or ours already."""
        free = any_of(
            [
                {"bool": {"must_not": [{"exists": {"field": "owner"}}]}},
                {"term": {"owner": self._owner}},
                {"range": {"claimed_until_ns": {"lte": long(now_ns)}}},
            ]
        )
        query = {"bool": {"filter": [WAITING, {"range": {"next_try_ns": {"lte": long(now_ns)}}}, free]}}
        taken: list[Message] = []
        for heads in self._heads(query):
            taken += self._claim(heads[: limit - len(taken)], now_ns)
            if len(taken) >= limit:
                break
        return taken

    def next_due_ns(self) -> int | None:
        """When the first of all queues is due, to this owner."""
        earliest: int | None = None
        for heads in self._heads(WAITING):
            for hit in heads:
                due = hit["_source"]["next_try_ns"]
                if earliest is not None and due >= earliest:
                    return earliest
                claimed = hit["_source"].get("claimed_until_ns")
                if claimed is not None and hit["_source"]["owner"] != self._owner:
                    due = max(due, claimed)
                earliest = due if earliest is None else min(earliest, due)
        return earliest

    def release(self) -> None:
        """Give up all claims."""
        query = {"bool": {"filter": [WAITING, {"term": {"owner": self._owner}}]}}
        hits = list(self._cluster.each(MESSAGES, query, LONGEST_DUE_FIRST, seq_no_primary_term=True, source=False))
        self._cluster.write("messages", [self._update(hit, RELEASED) for hit in hits])

    def _heads(self, query: Query) -> Iterator[list[Hit]]:
        """What the query finds, in order, as far as no earlier message of its queue waits."""
        batch: list[Hit] = []
        asked: dict[str, Any] = {
            "seq_no_primary_term": True,
            "source_includes": ["record", "queue", "number", "owner", "next_try_ns", "claimed_until_ns"],
        }
        for hit in self._cluster.each(MESSAGES, query, LONGEST_DUE_FIRST, **asked):
            batch.append(hit)
            if len(batch) == AT_ONCE:
                yield self._first_of_queues(batch)
                batch = []
        if batch:
            yield self._first_of_queues(batch)

    def _first_of_queues(self, hits: Sequence[Hit]) -> list[Hit]:
        queues = sorted({hit["_source"]["queue"] for hit in hits})
        earliest = self._cluster.search(
            MESSAGES,
            query={"bool": {"filter": [WAITING, {"terms": {"queue": queues}}]}},
            collapse={"field": "queue"},
            sort=[{"number": "asc"}],
            size=len(queues),
            source_includes=["queue", "number"],
        )
        lowest = {hit["_source"]["queue"]: hit["_source"]["number"] for hit in earliest}
        return [hit for hit in hits if lowest.get(hit["_source"]["queue"]) == hit["_source"]["number"]]

    def _claim(self, hits: Sequence[Hit], now_ns: int) -> list[Message]:
        """Those that nobody else has claimed just now."""
        # A claim that has most of its time left need not be written again.
        held = {hit["_id"] for hit in hits if self._is_held(hit, now_ns)}
        wanted = [hit for hit in hits if hit["_id"] not in held]
        claim = msgspec.json.encode({"doc": {"owner": self._owner, "claimed_until_ns": long(now_ns + self._lease_ns)}})
        outcomes = self._cluster.write("messages", [self._update(hit, claim) for hit in wanted])
        held |= {hit["_id"] for hit, outcome in zip(wanted, outcomes, strict=True) if outcome.done}
        return [unpack(hit["_source"]["record"], Message) for hit in hits if hit["_id"] in held]

    def _is_held(self, hit: Hit, now_ns: int) -> bool:
        source = hit["_source"]
        return source.get("owner") == self._owner and (source.get("claimed_until_ns") or 0) > now_ns + self._lease_ns // 2

    def _update(self, hit: Hit, change: bytes) -> Action:
        condition = {"if_seq_no": hit["_seq_no"], "if_primary_term": hit["_primary_term"]}
        return Action(verb="update", index=self._cluster.index(MESSAGES), id=hit["_id"], source=change, condition=condition)
