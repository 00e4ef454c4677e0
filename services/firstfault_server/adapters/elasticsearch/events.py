"""ContextStore on Elasticsearch: events with full text, dead letters."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from firstfault_server.adapters.elasticsearch import fingerprints
from firstfault_server.adapters.elasticsearch.ageing import Ageing
from firstfault_server.adapters.elasticsearch.cluster import AT_ONCE, Cluster, Refresh, Refused
from firstfault_server.adapters.elasticsearch.dead_letters import MOST_BYTES, DeadLetters
from firstfault_server.adapters.elasticsearch.documents import Document, document_id, event_document, unpack
from firstfault_server.adapters.elasticsearch.paging import page
from firstfault_server.adapters.elasticsearch.query import Query, compile_query, in_attempts
from firstfault_server.adapters.elasticsearch.templates import DEAD_LETTERS, EVENTS
from firstfault_server.core import model, search_fields
from firstfault_server.core.keyset import start_key
from firstfault_server.core.search import Term
from firstfault_server.core.search_match import bounds
from firstfault_server.ports import IncidentStore, ListQuery, NotFound, Page, walk

TEXTS: Final = ("words.body", "words.exception")
RUNS: Final = 200


class ElasticsearchContextStore:
    """Events in an index for each day of receipt, searched newest first."""

    def __init__(self, cluster: Cluster, incidents: IncidentStore, *, refresh: Refresh = False) -> None:
        """`incidents` knows the runs, which say what attempt an event belongs to. `refresh` makes writes visible at once, at a cost;
        else within a second."""
        self._cluster, self._incidents, self._refresh = cluster, incidents, refresh
        self._ageing = Ageing(cluster)
        self._dead_letters = DeadLetters(cluster, refresh=refresh)

    # ---- writing ---------------------------------------------------------------------------------------------------------

    def write_events(self, events: Sequence[model.Event]) -> None:
        """Insert; an id that is there already stays as it is. What the index refuses becomes a dead letter."""
        fresh: dict[str, tuple[Document, model.Event]] = {}
        for event in events:
            document = event_document(event)
            fresh.setdefault(document.id, (document, event))
        # `create` tells only within one day; an event that was sent again on another day is found here.
        for known in self._known(list(fresh)):
            del fresh[known]
        refused = self._cluster.create(EVENTS, [document for document, _ in fresh.values()], refresh=self._refresh)
        self._dead_letters.write([_dead_letter(each, fresh[each.document.id][1]) for each in refused])

    def write_dead_letters(self, letters: Sequence[model.DeadLetter]) -> None:
        """Keep what could not be used."""
        self._dead_letters.write(letters)

    def _known(self, ids: Sequence[str]) -> Iterator[str]:
        for start in range(0, len(ids), AT_ONCE):
            asked = ids[start : start + AT_ONCE]
            yield from (hit["_id"] for hit in self._cluster.search(EVENTS, query={"ids": {"values": asked}}, size=len(asked), source=False))

    # ---- reading ---------------------------------------------------------------------------------------------------------

    def event(self, tenant: str, event_id: str) -> model.Event:
        """Raises NotFound."""
        hits = self._cluster.search(EVENTS, query={"ids": {"values": [document_id(tenant, event_id)]}}, size=1, source_includes=["record"])
        if not hits:
            raise NotFound(f"no event {event_id!r}")
        return self._with_attempts([_event(hits[0])])[0]

    def events(self, query: ListQuery) -> Page[model.Event]:
        """Search keys: see `core.search_fields.EVENT`; free text over body and exception. Raises SearchError."""
        hits, following = page(self._cluster, [EVENTS], query, self._query(query))
        return Page(items=self._with_attempts([_event(hit) for hit in hits]), next_key=following)

    def fingerprints(self, query: ListQuery) -> Page[dict[str, Any]]:
        """Per fingerprint, latest first: fingerprint, symptom, type, message, count, first_seen_ns, last_seen_ns, runs, nodes."""
        found = fingerprints.rows(self._cluster, self._query(query), query.limit, start_key(query.after))
        kept = found[: query.limit]
        return Page(items=[row.summary for row in kept], next_key=[*kept[-1].key] if len(found) > query.limit and kept else None)

    def dead_letter(self, tenant: str, letter_id: str) -> model.DeadLetter:
        """Raises NotFound."""
        return self._dead_letters.one(tenant, letter_id)

    def dead_letters(self, query: ListQuery) -> Page[model.DeadLetter]:
        """By time of receipt, newest first."""
        return self._dead_letters.page(query)

    def prune(self, before_ns: int) -> int:
        """Drop what was received earlier; returns how many events went."""
        self._ageing.prune(DEAD_LETTERS, before_ns)
        return self._ageing.prune(EVENTS, before_ns)

    def extents(self) -> list[tuple[int, int]]:
        """(end, bytes) of each day's index, oldest first: what `prune` to that time would free."""
        return self._ageing.extents(EVENTS)

    def _query(self, query: ListQuery) -> Query:
        def attempt(term: Term) -> Query | None:
            if term.key != "attempt":
                return None
            low, high = bounds(term, search_fields.EVENT["attempt"])
            return in_attempts(low, high, self._runs(query.tenant))

        return compile_query(query, search_fields.EVENT, TEXTS, attempt)

    # ---- attempts --------------------------------------------------------------------------------------------------------

    def _runs(self, tenant: str) -> Iterable[model.RunStatus]:
        return walk(self._incidents.runs, ListQuery(tenant=tenant, limit=RUNS))

    def _with_attempts(self, events: list[model.Event]) -> list[model.Event]:
        runs: dict[tuple[str, str], model.RunStatus | None] = {}
        for event in events:
            if event.attempt is None:
                key = event.identity.tenant, event.identity.run
                if key not in runs:
                    runs[key] = self._run(*key)
                event.attempt = search_fields.attempt_at(runs[key], event.time_ns)
        return events

    def _run(self, tenant: str, run: str) -> model.RunStatus | None:
        try:
            return self._incidents.run(tenant, run)
        except NotFound:
            return None


def _event(hit: dict[str, Any]) -> model.Event:
    return unpack(hit["_source"]["record"], model.Event)


def _dead_letter(refused: Refused, event: model.Event) -> model.DeadLetter:
    return model.DeadLetter(
        id=refused.document.id,
        tenant=event.identity.tenant,
        received_ns=event.received_ns,
        reason=f"the event {event.id} cannot be stored: {refused.reason}",
        signal="logs",
        data=refused.document.source[:MOST_BYTES],
    )
