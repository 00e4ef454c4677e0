"""Events and dead letters as documents, and back. The whole record lies in one field; beside it only what is searched."""

import base64
import datetime
import hashlib
import zlib
from typing import Any, Final, TypeVar

import msgspec

from firstfault_server.adapters.elasticsearch.query import long
from firstfault_server.core import model, search_fields
from firstfault_server.core.documents import attributes_document, rfc3339
from firstfault_server.core.search_match import words
from firstfault_server.core.unicode import escaped

RecordT = TypeVar("RecordT", bound=msgspec.Struct)
LONGEST_KEY: Final = 500
_EPOCH: Final = datetime.datetime(1970, 1, 1)
_LAST_DAY: Final = (datetime.datetime(9999, 12, 31) - _EPOCH).days
DAY_NS: Final = 86_400 * model.SECOND_NS


class Document(msgspec.Struct, kw_only=True):
    """What goes into an index."""

    day: str
    id: str
    """Of the document: unique over all tenants."""
    source: bytes


def pack(record: msgspec.Struct) -> str:
    """The record as text."""
    return base64.b64encode(zlib.compress(msgspec.msgpack.encode(record), 1)).decode()


def unpack(text: str, kind: type[RecordT]) -> RecordT:
    """The record that `pack` made."""
    return msgspec.msgpack.decode(zlib.decompress(base64.b64decode(text)), type=kind)


def document_id(tenant: str, record_id: str) -> str:
    """The same for the same record, whoever writes it."""
    return hashlib.sha256(msgspec.json.encode([tenant, record_id])).hexdigest()


def day_of(received_ns: int) -> str:
    """Day of an index, YYYY.MM.DD; times no calendar has go to the nearest day."""
    days = min(max(received_ns // DAY_NS, 0), _LAST_DAY)
    return (_EPOCH + datetime.timedelta(days=days)).strftime("%Y.%m.%d")


def start_of_day(day: str) -> int:
    """First nanosecond of a day. Raises ValueError."""
    return (datetime.datetime.strptime(day, "%Y.%m.%d") - _EPOCH).days * DAY_NS


def event_document(event: model.Event) -> Document:
    """The document of an event; text that is not Unicode is escaped."""
    try:
        record = pack(event)
    except UnicodeEncodeError:
        event = escaped(event)
        record = pack(event)
    tenant = event.identity.tenant
    seen = search_fields.event_document(event, event.attempt)
    search = {key: [long(value) if isinstance(value, int) else value for value in values] for key, values in seen.values.items() if values}
    body, exception = (" ".join(words(text)) for text in search_fields.event_texts(event))
    source = _common(tenant, event.id, event.time_ns, event.received_ns, record) | {
        "time_ns": long(event.time_ns),
        "search": search,
        "words": {"body": body, "exception": exception},
        "attributes": _attributes(event),
    }
    return Document(day=day_of(event.received_ns), id=document_id(tenant, event.id), source=msgspec.json.encode(source))


def dead_letter_document(letter: model.DeadLetter) -> Document:
    """The document of a dead letter."""
    try:
        record = pack(letter)
    except UnicodeEncodeError:
        letter = model.DeadLetter(
            id=_plain(letter.id),
            tenant=_plain(letter.tenant),
            received_ns=letter.received_ns,
            reason=_plain(letter.reason),
            signal=_plain(letter.signal),
            data=letter.data,
        )
        record = pack(letter)
    source = _common(letter.tenant, letter.id, letter.received_ns, letter.received_ns, record) | {"reason": letter.reason}
    return Document(day=day_of(letter.received_ns), id=document_id(letter.tenant, letter.id), source=msgspec.json.encode(source))


def _plain(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


def _common(tenant: str, record_id: str, time_ns: int, received_ns: int, record: str) -> dict[str, Any]:
    return {"@timestamp": rfc3339(time_ns), "tenant": tenant, "id": record_id, "received_ns": long(received_ns), "record": record}


def _attributes(event: model.Event) -> dict[str, Any]:
    """Attributes for searches by other tools; names that a field of this type cannot have are left to the record."""
    named = attributes_document(event.attributes)
    return {key: value for key, value in named.items() if key.strip(". ") and len(key) <= LONGEST_KEY and "\0" not in key}
