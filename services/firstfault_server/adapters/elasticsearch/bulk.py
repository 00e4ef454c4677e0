"""Writing documents in bulk: each once, and one that is refused costs no other."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec
from elasticsearch import Elasticsearch

from firstfault_server.adapters.elasticsearch.connection import PASSING, Connection, out_of_room
from firstfault_server.adapters.elasticsearch.documents import Document
from firstfault_server.adapters.elasticsearch.templates import Family
from firstfault_server.ports import StorageFull, StoreUnavailable

MOST: Final = 500
MOST_BYTES: Final = 8 << 20
CREATED, THERE = 201, 409


class Refused(msgspec.Struct, frozen=True):
    """A document that the index does not take, ever."""

    document: Document
    reason: str


def create(client: Elasticsearch, connection: Connection, family: Family, documents: Sequence[Document], *, refresh: bool) -> list[Refused]:
    """Write documents that are not there; those that were refused. Raises StorageFull, StoreUnavailable; some may be written then."""
    refused: list[Refused] = []
    for part in _parts(documents):
        operations: list[Any] = []
        for document in part:
            action = {"create": {"_index": family.index(connection.prefix, document.day), "_id": document.id}}
            operations += [msgspec.json.encode(action), document.source]
        with connection.asking(f"store {family.name}"):
            answer = client.bulk(operations=operations, refresh=refresh, filter_path="items.*.status,items.*.error")
        for document, item in zip(part, answer["items"], strict=True):
            reason = _refusal(connection, family, item["create"])
            if reason:
                refused.append(Refused(document, reason))
    return refused


def _refusal(connection: Connection, family: Family, item: dict[str, Any]) -> str:
    status, error = item["status"], item.get("error", {})
    if status in (CREATED, THERE):
        return ""
    reason = f"{error.get('type', 'error')}: {error.get('reason', '')}"
    cause = error.get("caused_by")
    if cause:
        reason += f" ({cause.get('reason', '')})"
    if out_of_room(reason):
        raise StorageFull(f"Elasticsearch at {connection.place} has no room for {family.name}: {reason}")
    if status in PASSING:
        raise StoreUnavailable(f"Elasticsearch at {connection.place} cannot store {family.name}: {reason}")
    return reason


def _parts(documents: Sequence[Document]) -> Iterator[list[Document]]:
    part: list[Document] = []
    size = 0
    for document in documents:
        if part and (len(part) == MOST or size + len(document.source) > MOST_BYTES):
            yield part
            part, size = [], 0
        part.append(document)
        size += len(document.source)
    if part:
        yield part
