"""Outbox on Elasticsearch: messages that several alerters deliver, each by one of them at a time, and the record of every try."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from firstfault_server.adapters.elasticsearch.ageing import Ageing
from firstfault_server.adapters.elasticsearch.bulk import Action
from firstfault_server.adapters.elasticsearch.claims import Claims
from firstfault_server.adapters.elasticsearch.cluster import AT_ONCE, Cluster, Refresh
from firstfault_server.adapters.elasticsearch.dead_letters import DeadLetters
from firstfault_server.adapters.elasticsearch.documents import Document, document_id, searchable, storable, unpack
from firstfault_server.adapters.elasticsearch.paging import page
from firstfault_server.adapters.elasticsearch.periods import period_of
from firstfault_server.adapters.elasticsearch.query import compile_query, long
from firstfault_server.adapters.elasticsearch.templates import DELIVERIES, MESSAGES
from firstfault_server.core import model, search_fields
from firstfault_server.core.documents import rfc3339
from firstfault_server.ports import Delivery, ListQuery, Message, Page

TRIES: Final = 20
LEASE_S: Final = 60.0
IN_ORDER: Final = [{"destination": "asc"}, {"number": "asc"}, {"id": "asc"}]


class ElasticsearchOutbox:
    """One document per message, one per try."""

    def __init__(self, cluster: Cluster, owner: str, *, lease_s: float = LEASE_S, refresh: Refresh = False) -> None:
        """`owner` names this process among the alerters; messages that it took and did not finish come due for others after the lease.

        `refresh` lets the delivery log show tries at once, at a cost; else within a second.
        """
        self._cluster, self._owner, self._refresh = cluster, owner, refresh
        self._claims = Claims(cluster, owner, int(lease_s * model.SECOND_NS))
        self._ageing = Ageing(cluster)
        self._dead_letters = DeadLetters(cluster, refresh=refresh)

    # ---- messages --------------------------------------------------------------------------------------------------------

    def add(self, messages: Sequence[Message]) -> None:
        """Insert; an id that is there already stays as it is: who may have planned it at the same time as others plans again.

        What the index refuses becomes a dead letter.
        """
        documents = [_document(message) for message in messages]
        letters = []
        for refused in self._cluster.create(MESSAGES, documents):
            message = messages[documents.index(refused.document)]
            reason = f"the message {message.id} cannot be stored: {refused.reason}"
            letter_id = document_id(message.tenant, reason)
            letters.append(
                model.DeadLetter(
                    id=letter_id, tenant=message.tenant, received_ns=message.created_ns, reason=reason[:1000], data=message.body
                )
            )
        self._dead_letters.write(letters)

    def due(self, now_ns: int, limit: int) -> list[Message]:
        """Waiting messages whose time has come, longest due first; of one incident and destination only the lowest number.

        They are this owner's until they are recorded, or until the lease ends; asking again takes them for longer.
        """
        self._cluster.refresh(MESSAGES)
        return self._claims.take(now_ns, limit)

    def next_due_ns(self) -> int | None:
        """When the next waiting message is due; one that somebody else delivers is due when his lease ends."""
        self._cluster.refresh(MESSAGES)
        return self._claims.next_due_ns()

    def record(self, message: Message, delivery: Delivery) -> None:
        """Store the try, then the message's new state: who dies in between tries once more, under the same id.

        What is over stays over: a try that failed while another alerter delivered the message changes nothing but the log.
        """
        self._log(delivery)
        document = _document(message)
        for _ in range(TRIES):
            stored = self._cluster.get(MESSAGES, [document.id], ["state", "owner"]).get(document.id)
            if stored is not None and not self._may_become(stored.source, message):
                return
            source: dict[str, Any] = msgspec.json.decode(document.source)
            if self._cluster.put(MESSAGES, document.id, source, stored).done:
                return
        raise self._cluster.unavailable("cannot record a try: others keep writing the same message")

    def _may_become(self, stored: dict[str, Any], message: Message) -> bool:
        if message.state == "delivered":
            return True
        return stored["state"] == "waiting" and (message.state == "failed" or stored.get("owner") in (None, self._owner))

    def messages(self, tenant: str, incident_id: str) -> list[Message]:
        """All messages of an incident, by destination and number."""
        self._cluster.refresh(MESSAGES)
        query = {"term": {"incident": document_id(tenant, incident_id)}}
        hits = self._cluster.each(MESSAGES, query, IN_ORDER, source_includes=["record"])
        return [unpack(hit["_source"]["record"], Message) for hit in hits]

    def forget(self, incidents: Sequence[tuple[str, str]]) -> None:
        """Drop the messages of incidents (tenant, id) that are no more, those that wait too."""
        self._cluster.refresh(MESSAGES)
        index = self._cluster.index(MESSAGES)
        for start in range(0, len(incidents), AT_ONCE):
            keys = [document_id(*incident) for incident in incidents[start : start + AT_ONCE]]
            hits = self._cluster.each(MESSAGES, {"terms": {"incident": keys}}, IN_ORDER, source=False)
            self._cluster.write("messages", [Action(verb="delete", index=index, id=hit["_id"]) for hit in hits])

    def release(self) -> None:
        """Let others have what this owner took and did not finish, at once."""
        self._cluster.refresh(MESSAGES)
        self._claims.release()

    # ---- deliveries ------------------------------------------------------------------------------------------------------

    def deliveries(self, query: ListQuery) -> Page[Delivery]:
        """Delivery log, newest first. Search keys: see `core.search_fields.DELIVERY`. Raises SearchError."""
        hits, following = page(self._cluster, [DELIVERIES], query, compile_query(query, search_fields.DELIVERY))
        return Page(items=[unpack(hit["_source"]["record"], Delivery) for hit in hits], next_key=following)

    def prune_deliveries(self, before_ns: int) -> int:
        """Drop tries that are older; returns how many went."""
        return self._ageing.prune(DELIVERIES, before_ns)

    def _log(self, delivery: Delivery) -> None:
        delivery, record = storable(delivery)
        period = period_of(DELIVERIES.unit, delivery.time_ns)
        source = {
            "@timestamp": rfc3339(delivery.time_ns),
            "tenant": delivery.tenant,
            "id": delivery.id,
            "time_ns": long(delivery.time_ns),
            "received_ns": long(delivery.time_ns),
            "search": searchable(_seen(delivery)),
            "record": record,
        }
        action = Action(
            verb="index",
            index=self._cluster.index(DELIVERIES, period),
            id=document_id(delivery.tenant, delivery.id),
            source=msgspec.json.encode(source),
        )
        (outcome,) = self._cluster.write("deliveries", [action], refresh=self._refresh)
        if outcome.refused:
            raise self._cluster.unavailable(f"refuses a delivery: {outcome.reason}")


def _document(message: Message) -> Document:
    message, record = storable(message)
    source = {
        "tenant": message.tenant,
        "id": message.id,
        "incident": document_id(message.tenant, message.incident),
        "queue": document_id(message.tenant, message.incident, message.destination),
        "destination": message.destination,
        "number": long(message.number),
        "state": message.state,
        "next_try_ns": long(message.next_try_ns),
        "created_ns": long(message.created_ns),
        "record": record,
    }
    return Document(period="", id=document_id(message.id), source=msgspec.json.encode(source))


def _seen(delivery: Delivery) -> search_fields.Document:
    return search_fields.Document(
        values={
            "destination": (delivery.destination,),
            "incident": (delivery.incident,),
            "message": (delivery.message,),
            "kind": (delivery.kind,),
            "delivered": ("true" if delivery.delivered else "false",),
        }
    )
