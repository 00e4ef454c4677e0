"""What all stores of one cluster share: its client, and the requests they make of it."""

import time
from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal

import msgspec
from elasticsearch import ApiError

from firstfault_server.adapters.elasticsearch import bulk
from firstfault_server.adapters.elasticsearch.bulk import Action, Outcome
from firstfault_server.adapters.elasticsearch.connection import Connection
from firstfault_server.adapters.elasticsearch.documents import Document
from firstfault_server.adapters.elasticsearch.query import Query
from firstfault_server.adapters.elasticsearch.templates import Family, is_prepared
from firstfault_server.ports import StoreUnavailable

AT_ONCE: Final = 500
Hit = dict[str, Any]
Refresh = bool | Literal["wait_for"]


PAUSES: Final = (0.05, 0.1, 0.2, 0.4, 0.0)
"""Seconds between looks at an index that cannot be read yet because it was made a moment ago, as by the first write of a day."""
NOT_NOW: Final = 503
NO_INDEX, NO_SHARD = "index_not_found_exception", "no_shard_available_action_exception"


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """A document as it is now, whatever searches see of it yet."""

    source: dict[str, Any]
    seq_no: int
    primary_term: int

    @property
    def unchanged(self) -> dict[str, Any]:
        """Condition of a write that must not meet another version."""
        return {"if_seq_no": self.seq_no, "if_primary_term": self.primary_term}


class Refused(msgspec.Struct, frozen=True):
    """A document that the index does not take, ever."""

    document: Document
    reason: str


class Cluster:
    """One client, which every thread may use. It connects with the first request."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.client = connection.client()
        self._prepared = False

    def close(self) -> None:
        """Release the client."""
        self.client.close()

    def index(self, family: Family, period: str = "") -> str:
        """Name of an index."""
        return family.index(self.connection.prefix, period)

    def unavailable(self, why: str) -> StoreUnavailable:
        """The error that says where it happened."""
        return StoreUnavailable(f"Elasticsearch at {self.connection.place} {why}")

    # ---- writing ---------------------------------------------------------------------------------------------------------

    def write(self, what: str, actions: Sequence[Action], *, refresh: Refresh = False) -> list[Outcome]:
        """Write all; what became of each. Raises StorageFull, StoreUnavailable; some may be written then."""
        if not actions:
            return []
        self._check_prepared()
        return bulk.write(self.client, self.connection, f"store {what}", actions, refresh=refresh)

    def create(self, family: Family, documents: Sequence[Document], *, refresh: Refresh = False) -> list[Refused]:
        """Write documents that are not there; those that were refused."""
        actions = [
            Action(verb="create", index=self.index(family, document.period), id=document.id, source=document.source)
            for document in documents
        ]
        outcomes = self.write(family.name, actions, refresh=refresh)
        return [Refused(document, outcome.reason) for document, outcome in zip(documents, outcomes, strict=True) if outcome.refused]

    def put(self, family: Family, key: str, source: dict[str, Any], stored: Found | None, *, refresh: Refresh = False) -> Outcome:
        """Write one document if the stored one is still `stored` (None: none). Raises StoreUnavailable also when it is refused."""
        action = Action(
            verb="create" if stored is None else "index",
            index=self.index(family),
            id=key,
            source=msgspec.json.encode(source),
            condition={} if stored is None else stored.unchanged,
        )
        (outcome,) = self.write(family.name, [action], refresh=refresh)
        if outcome.refused:
            raise self.unavailable(f"refuses one of the {family.name}: {outcome.reason}")
        return outcome

    def _check_prepared(self) -> None:
        if not self._prepared:
            with self.connection.asking("tell its index templates"):
                self._prepared = is_prepared(self.client, self.connection.prefix)
            if not self._prepared:
                raise self.unavailable("lacks our index templates; run `firstfault migrate`")

    # ---- reading ---------------------------------------------------------------------------------------------------------

    def get(self, family: Family, keys: Sequence[str], fields: Sequence[str], *, period: str = "") -> dict[str, Found]:
        """Of the documents that are there those fields, by id, as last written."""
        found: dict[str, Found] = {}
        index = self.index(family, period)
        for start in range(0, len(keys), AT_ONCE):
            with self.connection.asking(f"read {family.name}"):
                for pause in PAUSES:
                    answer = self.client.mget(index=index, ids=keys[start : start + AT_ONCE], source_includes=fields)
                    if not any(_reason(each) == NO_SHARD for each in answer["docs"]):
                        break
                    time.sleep(pause)
            for each in answer["docs"]:
                if each.get("found"):
                    found[each["_id"]] = Found(source=each["_source"], seq_no=each["_seq_no"], primary_term=each["_primary_term"])
                elif _reason(each) not in ("", NO_INDEX):
                    raise self.unavailable(f"cannot read {family.name}: {each['error'].get('reason')}")
        return found

    def search(self, *families: Family, **asked: Any) -> list[Hit]:
        """Hits of a search; what was written in the last second may be missing."""
        hits: list[Hit] = self.ask(*families, track_total_hits=False, **asked)["hits"]["hits"]
        return hits

    def ask(self, *families: Family, **asked: Any) -> dict[str, Any]:
        """Whole answer of a search. Raises StoreUnavailable also for an answer in part."""
        aliases = ",".join(family.alias(self.connection.prefix) for family in families)
        with self.connection.asking(f"search {', '.join(family.name for family in families)}"):
            for pause in PAUSES:
                try:
                    # Before the first record there is no index, and that is no error.
                    answer: dict[str, Any] = self.client.search(index=aliases, ignore_unavailable=True, **asked).body
                except ApiError as error:
                    if error.status_code != NOT_NOW or not pause:
                        raise
                else:
                    if not answer["_shards"]["failed"]:
                        break
                time.sleep(pause)
        self._check_whole(answer)
        return answer

    def _check_whole(self, answer: dict[str, Any]) -> None:
        """An answer without some of the indices would be a silent gap. Raises StoreUnavailable."""
        failed = answer["_shards"]["failed"]
        if failed or answer["timed_out"]:
            raise self.unavailable(f"answered in part only: {failed} shards failed")

    def each(self, family: Family, query: Query, sort: Sequence[dict[str, Any]], **asked: Any) -> Iterator[Hit]:
        """All hits in order; `sort` ends in a field that tells documents apart."""
        after: dict[str, Any] = {}
        while True:
            hits = self.search(family, query=query, sort=list(sort), size=AT_ONCE, **asked, **after)
            yield from hits
            if len(hits) < AT_ONCE:
                return
            after = {"search_after": hits[-1]["sort"]}

    def refresh(self, *families: Family) -> None:
        """Let searches see what was written until now."""
        aliases = ",".join(family.alias(self.connection.prefix) for family in families)
        with self.connection.asking(f"refresh {', '.join(family.name for family in families)}"):
            self.client.indices.refresh(index=aliases, ignore_unavailable=True)


def _reason(answer: dict[str, Any]) -> str:
    reason: str = answer.get("error", {}).get("type", "")
    return reason
