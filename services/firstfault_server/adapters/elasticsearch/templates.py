"""Index templates: what the indices of a family look like, and making a cluster have them.

What ages lies in an index for each period of receipt, so that old data goes by dropping whole indices, without lifecycle management.
What changes lies in one index, in which each thing has one document. Readers use the alias of the family, which spans its indices.
"""

from typing import Any, Final

import msgspec
from elasticsearch import Elasticsearch, NotFoundError

from firstfault_server.adapters.elasticsearch.connection import Connection
from firstfault_server.adapters.elasticsearch.periods import Unit
from firstfault_server.core.search_fields import AUDIT, DELIVERY, EVENT, INCIDENT, RUN, SILENCE, Fields
from firstfault_server.ports import StoreUnavailable

VERSION: Final = 1
"""Of the templates; a newer service upgrades them, an older one leaves a newer version alone."""
WORKS_FROM: Final = 1
"""Lowest version that a service may know and still use indices of these templates. A version that only adds fields keeps the number of the
one before, so that services can be rolled back after it."""
LAYOUT: Final = 1
"""In the names of indices; another one means other indices, which hold nothing of what was there."""
LONGEST_VALUE: Final = 4000
"""Characters of a value that can be searched verbatim; Lucene takes 32 kB."""
Mapping = dict[str, Any]


class Family(msgspec.Struct, frozen=True, kw_only=True):
    """Indices that hold the same kind of record."""

    name: str
    properties: Mapping
    unit: Unit = "ever"
    large: bool = False
    """May have several shards; the others always have one, which refreshes writes in the order in which they were made."""
    refresh: str = "1s"
    """How late lists may see a write."""

    def alias(self, prefix: str) -> str:
        """What readers ask."""
        return f"{prefix}-{self.name}"

    def index(self, prefix: str, period: str = "") -> str:
        """Index of a period (`periods.period_of`), or the only one."""
        name = f"{prefix}-{self.name}-v{LAYOUT}"
        return name if self.unit == "ever" else f"{name}-{period}"


def search_properties(fields: Fields) -> Mapping:
    """Fields under which the values that a search can ask for are kept."""
    keyword = {"type": "keyword", "ignore_above": LONGEST_VALUE}
    return {"properties": {key: {"type": "long"} if field.type == "number" else keyword for key, field in fields.items()}}


KEY: Final[Mapping] = {"type": "keyword"}
NUMBER: Final[Mapping] = {"type": "long"}
FLAG: Final[Mapping] = {"type": "boolean"}
WORDS: Final[Mapping] = {"type": "text", "analyzer": "whitespace", "norms": False}
"""Text that was cut into words already (`core.search_match.words`), so that every store finds the same."""
RECORD: Final[Mapping] = {"type": "binary"}
TIME: Final[Mapping] = {"type": "date"}
COMMON: Final[Mapping] = {"tenant": KEY, "id": KEY, "record": RECORD}
AGEING: Final[Mapping] = COMMON | {"@timestamp": TIME, "received_ns": NUMBER}
LISTED: Final[Mapping] = {"time_ns": NUMBER}
"""Of what is listed newest first."""
ENTRY: Final[Mapping] = {"entry": {"properties": COMMON | LISTED | {"search": search_properties(AUDIT)}}}
"""The audit entry of the latest change, which the changed document carries (`audit.py`)."""

EVENTS: Final = Family(
    name="events",
    unit="day",
    large=True,
    properties=AGEING
    | LISTED
    | {
        "search": search_properties(EVENT),
        "words": {"properties": {"body": WORDS, "exception": WORDS}},
        "attributes": {"type": "flattened", "ignore_above": LONGEST_VALUE},
    },
)
DEAD_LETTERS: Final = Family(name="deadletters", unit="day", properties=AGEING | {"reason": {"type": "text", "index": False}})
INCIDENTS: Final = Family(
    name="incidents",
    # Few documents, and people wait for them.
    refresh="200ms",
    properties=COMMON
    | LISTED
    | {
        "@timestamp": TIME,
        "run": KEY,
        "resolved_ns": NUMBER,
        "marks": {"properties": {"version": NUMBER, "muted_until_ns": NUMBER}},
        "search": search_properties(INCIDENT),
        "words": WORDS,
    },
)
REVISIONS: Final = Family(name="revisions", properties={"incident": KEY, "revision": NUMBER, "record": RECORD})
RUNS: Final = Family(name="runs", properties=COMMON | LISTED | {"@timestamp": TIME, "search": search_properties(RUN), "words": WORDS})
TRIAGE: Final = Family(name="triage", properties=COMMON | ENTRY | {"version": NUMBER, "unseen": FLAG})
SILENCES: Final = Family(
    name="silences",
    properties=COMMON | LISTED | ENTRY | {"version": NUMBER, "starts_ns": NUMBER, "ends_ns": NUMBER, "search": search_properties(SILENCE)},
)
AUDIT_ENTRIES: Final = Family(name="audit", unit="month", properties={"@timestamp": TIME, "received_ns": NUMBER} | ENTRY)
ANSWERS: Final = Family(name="answers", unit="day", properties={"received_ns": NUMBER})
KEYS: Final = Family(name="keys", properties=COMMON | LISTED | ENTRY | {"secret_hash": KEY})
DESTINATIONS: Final = Family(name="destinations", properties=COMMON | LISTED | ENTRY | {"removed": FLAG})
MESSAGES: Final = Family(
    name="messages",
    properties=COMMON
    | {
        "incident": KEY,
        "queue": KEY,
        "destination": KEY,
        "number": NUMBER,
        "state": KEY,
        "next_try_ns": NUMBER,
        "created_ns": NUMBER,
        "owner": KEY,
        "claimed_until_ns": NUMBER,
    },
)
DELIVERIES: Final = Family(name="deliveries", unit="month", properties=AGEING | LISTED | {"search": search_properties(DELIVERY)})
FAMILIES: Final = (
    *(EVENTS, DEAD_LETTERS, INCIDENTS, REVISIONS, RUNS, TRIAGE, SILENCES),
    *(AUDIT_ENTRIES, ANSWERS, KEYS, DESTINATIONS, MESSAGES, DELIVERIES),
)


def template(family: Family, prefix: str, *, shards: int, replicas: int) -> dict[str, Any]:
    """The index template of a family."""
    return {
        "index_patterns": [family.index(prefix, "*")],
        "priority": 500,
        "version": VERSION,
        "_meta": {"works_from": WORKS_FROM},
        "template": {
            "aliases": {family.alias(prefix): {}},
            "settings": {
                "number_of_shards": shards if family.large else 1,
                "number_of_replicas": replicas,
                "refresh_interval": family.refresh,
                # What was acknowledged is on disk.
                "translog": {"durability": "request"},
            },
            "mappings": {"dynamic": False, "properties": family.properties},
        },
    }


def ensure_templates(connection: Connection, *, shards: int = 1, replicas: int = 1) -> list[str]:
    """Write templates that are missing or older, and give the indices there are the fields they lack.

    The names of those templates, [] when all was well. Raises StoreUnavailable, also for templates of a later version that needs one.
    """
    written = []
    with connection.client() as client, connection.asking("prepare the index templates"):
        versions = _versions(client, connection.prefix)
        for family in FAMILIES:
            name = family.alias(connection.prefix)
            if versions.get(name, 0) < VERSION:
                client.indices.put_index_template(name=name, **template(family, connection.prefix, shards=shards, replicas=replicas))
                pattern = family.index(connection.prefix, "*")
                if client.indices.exists(index=pattern, allow_no_indices=False):
                    client.indices.put_mapping(index=pattern, properties=family.properties)
                written.append(name)
    return written


def _versions(client: Elasticsearch, prefix: str) -> dict[str, int]:
    """Versions of the templates that are there, by name. Raises StoreUnavailable for one that this version cannot use."""
    try:
        found = client.indices.get_index_template(name=f"{prefix}-*")["index_templates"]
    except NotFoundError:
        return {}
    versions: dict[str, int] = {}
    for each in found:
        name, stored = each["name"], each["index_template"]
        versions[name] = int(stored.get("version", 0))
        needed = int(stored.get("_meta", {}).get("works_from", 0))
        if needed > VERSION:
            raise StoreUnavailable(
                f"Elasticsearch: index template {name} was upgraded by a newer version to version {versions[name]}, which needs one that "
                f"knows version {needed}; this one knows {VERSION}. Go back to that version"
            )
    return versions


def is_prepared(client: Elasticsearch, prefix: str) -> bool:
    """Whether indices that are made now would look as they should. Raises StoreUnavailable for templates that this version cannot use."""
    versions = _versions(client, prefix)
    return all(versions.get(family.alias(prefix), 0) >= VERSION for family in FAMILIES)
