"""Index templates: what the indices of a family look like, and making a cluster have them.

An index holds what was received on one day, so that old data goes by dropping whole indices, without lifecycle management. Readers
use the alias of the family, which spans its days and versions.
"""

from typing import Any, Final

import msgspec
from elasticsearch import NotFoundError

from firstfault_server.adapters.elasticsearch.connection import Connection
from firstfault_server.core.search_fields import EVENT, Fields

VERSION: Final = 1
"""Of the templates; a newer service upgrades them, an older one leaves a newer version alone."""
LONGEST_VALUE: Final = 4000
"""Characters of a value that can be searched verbatim; Lucene takes 32 kB."""
Mapping = dict[str, Any]


class Family(msgspec.Struct, frozen=True, kw_only=True):
    """Indices that hold the same kind of record."""

    name: str
    properties: Mapping

    def alias(self, prefix: str) -> str:
        """What readers ask."""
        return f"{prefix}-{self.name}"

    def index(self, prefix: str, day: str) -> str:
        """Index of a day, YYYY.MM.DD."""
        return f"{prefix}-{self.name}-v{VERSION}-{day}"


def search_properties(fields: Fields) -> Mapping:
    """Fields under which the values that a search can ask for are kept."""
    keyword = {"type": "keyword", "ignore_above": LONGEST_VALUE}
    return {"properties": {key: {"type": "long"} if field.type == "number" else keyword for key, field in fields.items()}}


KEY: Final[Mapping] = {"type": "keyword"}
NUMBER: Final[Mapping] = {"type": "long"}
WORDS: Final[Mapping] = {"type": "text", "analyzer": "whitespace", "norms": False}
"""Text that was cut into words already (`core.search_match.words`), so that every store finds the same."""
RECORD: Final[Mapping] = {"type": "binary"}
COMMON: Final[Mapping] = {
    "@timestamp": {"type": "date"},
    "tenant": KEY,
    "id": KEY,
    "received_ns": NUMBER,
    "record": RECORD,
}
EVENTS: Final = Family(
    name="events",
    properties=COMMON
    | {
        "time_ns": NUMBER,
        "search": search_properties(EVENT),
        "words": {"properties": {"body": WORDS, "exception": WORDS}},
        "attributes": {"type": "flattened", "ignore_above": LONGEST_VALUE},
    },
)
DEAD_LETTERS: Final = Family(name="deadletters", properties=COMMON | {"reason": {"type": "text", "index": False}})
FAMILIES: Final = (EVENTS, DEAD_LETTERS)


def template(family: Family, prefix: str, *, shards: int, replicas: int) -> dict[str, Any]:
    """The index template of a family."""
    return {
        "index_patterns": [family.index(prefix, "*")],
        "priority": 500,
        "version": VERSION,
        "template": {
            "aliases": {family.alias(prefix): {}},
            "settings": {
                "number_of_shards": shards,
                "number_of_replicas": replicas,
                "refresh_interval": "1s",
                # What was acknowledged is on disk.
                "translog": {"durability": "request"},
            },
            "mappings": {"dynamic": False, "properties": family.properties},
        },
    }


def ensure_templates(connection: Connection, *, shards: int = 1, replicas: int = 1) -> list[str]:
    """Write templates that are missing or older; the names of those, [] when all was well. Raises StoreUnavailable."""
    written = []
    with connection.client() as client, connection.asking("prepare the index templates"):
        for family in FAMILIES:
            name = family.alias(connection.prefix)
            if _version(client, name) < VERSION:
                client.indices.put_index_template(name=name, **template(family, connection.prefix, shards=shards, replicas=replicas))
                written.append(name)
    return written


def _version(client: Any, name: str) -> int:
    """0 when there is none."""
    try:
        found = client.indices.get_index_template(name=name)
    except NotFoundError:
        return 0
    return int(found["index_templates"][0]["index_template"].get("version", 0))


def is_prepared(client: Any, prefix: str) -> bool:
    """Whether indices that are made now would look as they should."""
    return all(_version(client, family.alias(prefix)) >= VERSION for family in FAMILIES)
