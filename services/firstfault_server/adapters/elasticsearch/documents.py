"""Records as documents, and back. The whole record lies in one field; beside it only what is searched."""

import base64
import hashlib
import zlib
from collections.abc import Iterable
from typing import Any, Final, TypeVar

import msgspec

from firstfault_server.adapters.elasticsearch.periods import period_of
from firstfault_server.adapters.elasticsearch.query import long, plain
from firstfault_server.adapters.elasticsearch.templates import DEAD_LETTERS, EVENTS
from firstfault_server.core import later, model, search_fields
from firstfault_server.core.documents import attributes_document, rfc3339
from firstfault_server.core.search_match import words
from firstfault_server.core.unicode import escaped

RecordT = TypeVar("RecordT", bound=msgspec.Struct)
LONGEST_KEY: Final = 500


class Document(msgspec.Struct, kw_only=True):
    """What goes into an index."""

    period: str
    id: str
    """Of the document: unique over all tenants."""
    source: bytes


def pack(record: msgspec.Struct) -> str:
    """The record as text."""
    return base64.b64encode(zlib.compress(msgspec.msgpack.encode(record), 1)).decode()


def unpack(text: str, kind: type[RecordT]) -> RecordT:
    """The record that `pack` made, of this version or a later one."""
    return later.decode(zlib.decompress(base64.b64decode(text)), kind)


def storable(record: RecordT) -> tuple[RecordT, str]:
    """The record and its text; what is not Unicode in it is escaped. Raises OverflowError for a number of more than 64 bits."""
    try:
        return record, pack(record)
    except UnicodeEncodeError:
        mended = escaped(record)
        return mended, pack(mended)


def document_id(*names: str) -> str:
    """The same for the same names, tenant first, whoever asks."""
    return hashlib.sha256(msgspec.json.encode([plain(name) for name in names])).hexdigest()


def searchable(document: search_fields.Document) -> dict[str, Any]:
    """The values of a record that a search can ask for."""
    return {
        key: [long(value) if isinstance(value, int) else value for value in values] for key, values in document.values.items() if values
    }


def worded(texts: Iterable[str]) -> list[str]:
    """Texts cut into words; a phrase lies within one of them."""
    return [" ".join(words(text)) for text in texts]


def event_document(event: model.Event) -> Document:
    """The document of an event; text that is not Unicode is escaped."""
    event, record = storable(event)
    tenant = event.identity.tenant
    seen = search_fields.event_document(event, event.attempt)
    body, exception = worded(search_fields.event_texts(event))
    source = _common(tenant, event.id, event.time_ns, event.received_ns, record) | {
        "time_ns": long(event.time_ns),
        "search": searchable(seen),
        "words": {"body": body, "exception": exception},
        "attributes": _attributes(event),
    }
    return Document(period=period_of(EVENTS.unit, event.received_ns), id=document_id(tenant, event.id), source=msgspec.json.encode(source))


def dead_letter_document(letter: model.DeadLetter) -> Document:
    """The document of a dead letter."""
    letter, record = storable(letter)
    source = _common(letter.tenant, letter.id, letter.received_ns, letter.received_ns, record) | {"reason": letter.reason}
    period = period_of(DEAD_LETTERS.unit, letter.received_ns)
    return Document(period=period, id=document_id(letter.tenant, letter.id), source=msgspec.json.encode(source))


def _common(tenant: str, record_id: str, time_ns: int, received_ns: int, record: str) -> dict[str, Any]:
    return {"@timestamp": rfc3339(time_ns), "tenant": tenant, "id": record_id, "received_ns": long(received_ns), "record": record}


def _attributes(event: model.Event) -> dict[str, Any]:
    """Attributes for searches by other tools; names that a field of this type cannot have are left to the record."""
    named = attributes_document(event.attributes)
    return {key: value for key, value in named.items() if key.strip(". ") and len(key) <= LONGEST_KEY and "\0" not in key}
