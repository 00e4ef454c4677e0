"""AccessStore on SQLite: API keys and destinations."""

import sqlite3

from firstfault_server.adapters.sqlite.database import Database
from firstfault_server.adapters.sqlite.encoding import column, pack, unpack
from firstfault_server.adapters.sqlite.triage import put_audit
from firstfault_server.ports import AccessKey, Audit, Destination, NotFound


class SqliteAccessStore:
    """Keys and destinations, replaced whole."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def put_key(self, key: AccessKey, audit: Audit | None = None) -> None:
        """Insert or replace by id."""
        with self._database.write() as writer:
            writer.execute(
                "INSERT OR REPLACE INTO access_key (id, tenant, secret_hash, created_ns, record) VALUES (?, ?, ?, ?, ?)",
                (key.id, key.tenant, key.secret_hash, column(key.created_ns), pack(key)),
            )
            _record(writer, audit)

    def keys(self, tenant: str | None = None) -> list[AccessKey]:
        """All keys, or one tenant's, oldest first."""
        with self._database.read() as reader:
            rows = reader.execute(
                "SELECT record FROM access_key WHERE ?1 IS NULL OR tenant = ?1 ORDER BY created_ns, id", (tenant,)
            ).fetchall()
        return [unpack(record, AccessKey) for (record,) in rows]

    def key_by_hash(self, secret_hash: str) -> AccessKey | None:
        """The key of a secret, revoked ones included."""
        with self._database.read() as reader:
            row = reader.execute("SELECT record FROM access_key WHERE secret_hash = ?", (secret_hash,)).fetchone()
        return None if row is None else unpack(row[0], AccessKey)

    def put_destination(self, destination: Destination, audit: Audit | None = None) -> None:
        """Insert or replace by id."""
        with self._database.write() as writer:
            writer.execute(
                "INSERT OR REPLACE INTO destination (tenant, id, created_ns, record) VALUES (?, ?, ?, ?)",
                (destination.tenant, destination.id, column(destination.created_ns), pack(destination)),
            )
            _record(writer, audit)

    def destinations(self, tenant: str) -> list[Destination]:
        """One tenant's destinations, oldest first."""
        with self._database.read() as reader:
            rows = reader.execute("SELECT record FROM destination WHERE tenant = ? ORDER BY created_ns, id", (tenant,)).fetchall()
        return [unpack(record, Destination) for (record,) in rows]

    def destination(self, tenant: str, destination_id: str) -> Destination:
        """Raises NotFound."""
        with self._database.read() as reader:
            row = reader.execute("SELECT record FROM destination WHERE tenant = ? AND id = ?", (tenant, destination_id)).fetchone()
        if row is None:
            raise NotFound(f"no destination {destination_id!r}")
        return unpack(row[0], Destination)

    def remove_destination(self, tenant: str, destination_id: str, audit: Audit | None = None) -> None:
        """Raises NotFound."""
        with self._database.write() as writer:
            gone = writer.execute("DELETE FROM destination WHERE tenant = ? AND id = ?", (tenant, destination_id)).rowcount
            if not gone:
                raise NotFound(f"no destination {destination_id!r}")
            _record(writer, audit)


def _record(writer: sqlite3.Connection, audit: Audit | None) -> None:
    if audit is not None:
        put_audit(writer, audit)
