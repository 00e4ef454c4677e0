"""Keeps what incidents and runs can be searched by in step with their records."""

import hashlib
import sqlite3

import msgspec

from firstfault_server.adapters.sqlite.encoding import column
from firstfault_server.adapters.sqlite.search_sql import indexed_document
from firstfault_server.core.search_fields import Document


def index_document(writer: sqlite3.Connection, kind: str, doc: int, document: Document) -> None:
    """Write the values and words of row `doc` of table `kind`, unless they are what they were."""
    digest = hashlib.blake2b(msgspec.msgpack.encode(document), digest_size=16).digest()
    before: bytes = writer.execute(f"SELECT terms FROM {kind} WHERE doc = ?", (doc,)).fetchone()[0]
    if before == digest:
        return
    writer.execute("DELETE FROM term WHERE kind = ? AND doc = ?", (kind, doc))
    writer.executemany(
        "INSERT INTO term (kind, doc, key, text, number) VALUES (?, ?, ?, ?, ?)",
        [
            (kind, doc, key, None, column(value)) if isinstance(value, int) else (kind, doc, key, value, None)
            for key, values in document.values.items()
            for value in values
        ],
    )
    writer.execute(f"DELETE FROM {kind}_text WHERE rowid = ?", (doc,))
    writer.execute(f"INSERT INTO {kind}_text (rowid, words) VALUES (?, ?)", (doc, indexed_document(document)))
    writer.execute(f"UPDATE {kind} SET terms = ? WHERE doc = ?", (digest, doc))
