"""Tables of the SQLite store and the steps that bring an older file up to date."""

import sqlite3
from pathlib import Path
from typing import Final

from firstfault_server.ports import StoreUnavailable

APPLICATION_ID: Final = 0x46464C54
"""Marks the file as ours (https://www.sqlite.org/pragma.html#pragma_application_id)."""

# Records lie in `record` as packed by `encoding.py`; other columns exist to be searched and sorted.
# Events live in segments, a table and an index each (`segments.py`), since an FTS5 index without its content cannot delete
# rows before SQLite 3.43: a segment goes by dropping its tables.
_VERSION_1: Final = (
    """CREATE TABLE segment (segment INTEGER PRIMARY KEY AUTOINCREMENT, next_doc INTEGER NOT NULL, bytes INTEGER NOT NULL,
        first_ns INTEGER NOT NULL, last_ns INTEGER NOT NULL, first_received_ns INTEGER NOT NULL, last_received_ns INTEGER NOT NULL)""",
    """CREATE TABLE dead_letter (tenant TEXT NOT NULL, id TEXT NOT NULL, received_ns INTEGER NOT NULL, bytes INTEGER NOT NULL,
        record BLOB NOT NULL, PRIMARY KEY (tenant, id)) WITHOUT ROWID""",
    "CREATE INDEX dead_letter_time ON dead_letter (received_ns, bytes)",
    """CREATE TABLE incident (doc INTEGER PRIMARY KEY, tenant TEXT NOT NULL, id TEXT NOT NULL, revision INTEGER NOT NULL,
        opened_ns INTEGER NOT NULL, muted_until_ns INTEGER, terms BLOB NOT NULL, record BLOB NOT NULL, UNIQUE (tenant, id))""",
    "CREATE INDEX incident_time ON incident (tenant, opened_ns, id)",
    """CREATE TABLE incident_revision (tenant TEXT NOT NULL, id TEXT NOT NULL, revision INTEGER NOT NULL, record BLOB NOT NULL,
        PRIMARY KEY (tenant, id, revision)) WITHOUT ROWID""",
    """CREATE TABLE run (doc INTEGER PRIMARY KEY, tenant TEXT NOT NULL, id TEXT NOT NULL, revision INTEGER NOT NULL,
        updated_ns INTEGER NOT NULL, terms BLOB NOT NULL, record BLOB NOT NULL, UNIQUE (tenant, id))""",
    "CREATE INDEX run_time ON run (tenant, updated_ns, id)",
    """CREATE TABLE attempt (tenant TEXT NOT NULL, run TEXT NOT NULL, number INTEGER NOT NULL, started_ns INTEGER NOT NULL,
        PRIMARY KEY (tenant, run, number)) WITHOUT ROWID""",
    # What incidents and runs can be searched by: kind 'incident' or 'run', doc of its table.
    """CREATE TABLE term (kind TEXT NOT NULL, doc INTEGER NOT NULL, key TEXT NOT NULL, text TEXT, number INTEGER)""",
    "CREATE INDEX term_doc ON term (kind, doc, key)",
    "CREATE INDEX term_text ON term (kind, key, text)",
    "CREATE VIRTUAL TABLE incident_text USING fts5(words, tokenize=\"ascii tokenchars '_'\")",
    "CREATE VIRTUAL TABLE run_text USING fts5(words, tokenize=\"ascii tokenchars '_'\")",
    """CREATE TABLE triage (tenant TEXT NOT NULL, incident TEXT NOT NULL, version INTEGER NOT NULL, record BLOB NOT NULL,
        PRIMARY KEY (tenant, incident)) WITHOUT ROWID""",
    """CREATE TABLE audit (tenant TEXT NOT NULL, id TEXT NOT NULL, time_ns INTEGER NOT NULL, actor TEXT NOT NULL,
        action TEXT NOT NULL, subject TEXT NOT NULL, record BLOB NOT NULL, PRIMARY KEY (tenant, id)) WITHOUT ROWID""",
    "CREATE INDEX audit_time ON audit (tenant, time_ns, id)",
    """CREATE TABLE remembered (tenant TEXT NOT NULL, idempotency_key TEXT NOT NULL, request_hash TEXT NOT NULL, response BLOB NOT NULL,
        time_ns INTEGER NOT NULL, PRIMARY KEY (tenant, idempotency_key)) WITHOUT ROWID""",
    """CREATE TABLE access_key (id TEXT PRIMARY KEY, tenant TEXT NOT NULL, secret_hash TEXT NOT NULL, created_ns INTEGER NOT NULL,
        record BLOB NOT NULL)""",
    "CREATE INDEX access_key_hash ON access_key (secret_hash)",
    """CREATE TABLE destination (tenant TEXT NOT NULL, id TEXT NOT NULL, created_ns INTEGER NOT NULL, record BLOB NOT NULL,
        PRIMARY KEY (tenant, id)) WITHOUT ROWID""",
    """CREATE TABLE message (id TEXT PRIMARY KEY, tenant TEXT NOT NULL, destination TEXT NOT NULL, incident TEXT NOT NULL,
        number INTEGER NOT NULL, state TEXT NOT NULL, next_try_ns INTEGER NOT NULL, created_ns INTEGER NOT NULL, record BLOB NOT NULL)""",
    "CREATE INDEX message_queue ON message (tenant, incident, destination, number)",
    "CREATE INDEX message_due ON message (next_try_ns) WHERE state = 'waiting'",
    """CREATE TABLE delivery (tenant TEXT NOT NULL, id TEXT NOT NULL, time_ns INTEGER NOT NULL, destination TEXT NOT NULL,
        incident TEXT NOT NULL, message TEXT NOT NULL, kind TEXT NOT NULL, delivered INTEGER NOT NULL, record BLOB NOT NULL,
        PRIMARY KEY (tenant, id)) WITHOUT ROWID""",
    "CREATE INDEX delivery_time ON delivery (tenant, time_ns, id)",
    """CREATE TABLE snapshot (stage TEXT NOT NULL, key TEXT NOT NULL, state BLOB NOT NULL, PRIMARY KEY (stage, key))""",
    "CREATE TABLE position (one INTEGER PRIMARY KEY CHECK (one = 1), position TEXT NOT NULL)",
)
_VERSION_2: Final = (
    """CREATE TABLE silence (tenant TEXT NOT NULL, id TEXT NOT NULL, version INTEGER NOT NULL, created_ns INTEGER NOT NULL,
        starts_ns INTEGER NOT NULL, ends_ns INTEGER NOT NULL, author TEXT NOT NULL, record BLOB NOT NULL,
        PRIMARY KEY (tenant, id)) WITHOUT ROWID""",
    "CREATE INDEX silence_time ON silence (tenant, created_ns, id)",
    "CREATE INDEX silence_end ON silence (tenant, ends_ns, id)",
)
MIGRATIONS: Final = (_VERSION_1, _VERSION_2)
"""Statements that lead from each version to the next; what has shipped is never changed."""


def migrate(connection: sqlite3.Connection, path: Path) -> None:
    """Bring the schema up to date, in one transaction. Raises StoreUnavailable for a file of a newer version or of others."""
    if _version(connection, path) == len(MIGRATIONS):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Another process may have done it while this one waited.
        for statements in MIGRATIONS[_version(connection, path) :]:
            for statement in statements:
                connection.execute(statement)
        connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version={len(MIGRATIONS)}")
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _version(connection: sqlite3.Connection, path: Path) -> int:
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    application: int = connection.execute("PRAGMA application_id").fetchone()[0]
    empty = connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is None
    if application != APPLICATION_ID and not empty:
        raise StoreUnavailable(f"{path}: is a database of another program; choose another folder")
    if version > len(MIGRATIONS):
        raise StoreUnavailable(f"{path}: was written by a newer version (schema {version}, this one knows {len(MIGRATIONS)}); upgrade")
    return version
