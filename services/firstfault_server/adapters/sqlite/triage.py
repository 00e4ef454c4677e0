"""TriageStore on SQLite: people's marks with compare-and-set, the audit trail, answers remembered for repeated writes."""

import sqlite3
from typing import Final

from firstfault_server.adapters.sqlite import paging
from firstfault_server.adapters.sqlite.database import Database
from firstfault_server.adapters.sqlite.encoding import column, pack, unpack
from firstfault_server.adapters.sqlite.incidents import mark_incident, read_triage
from firstfault_server.adapters.sqlite.search_sql import Columns, compile_expression, nowhere
from firstfault_server.core import model, search_fields
from firstfault_server.ports import Audit, Clock, ListQuery, Page, VersionConflict

REMEMBERED_NS: Final = 86_400 * model.SECOND_NS
"""How long the answer to an idempotency key is kept."""
_COLUMNS: Final = {"actor": "actor", "action": "action", "subject": "subject"}


class SqliteTriageStore:
    """Marks, audit and idempotency keys; a mark and its audit entry commit together."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    def triage(self, tenant: str, incident_id: str) -> model.Triage:
        """Version 0 when nobody has touched it."""
        with self._database.read() as reader:
            return read_triage(reader, tenant, incident_id)

    def put_triage(self, triage: model.Triage, audit: Audit) -> model.Triage:
        """Write version+1 if the stored version equals `triage.version`; else VersionConflict."""
        with self._database.write() as writer:
            stored = read_triage(writer, triage.tenant, triage.incident)
            if stored.version != triage.version:
                raise VersionConflict(f"incident {triage.incident!r} is at version {stored.version}, not {triage.version}")
            written = _copy(triage, triage.version + 1)
            writer.execute(
                "INSERT OR REPLACE INTO triage (tenant, incident, version, record) VALUES (?, ?, ?, ?)",
                (written.tenant, written.incident, written.version, pack(written)),
            )
            put_audit(writer, audit)
            mark_incident(writer, written)
        return written

    def audit(self, query: ListQuery) -> Page[Audit]:
        """Audit trail, newest first. Search keys: actor, action, subject. Raises SearchError."""
        sql, values = compile_expression(query.where, Columns(fields=search_fields.AUDIT, columns=_COLUMNS, fts=nowhere))
        period, bounds = paging.period("time_ns", query)
        further, key = paging.beyond("time_ns", "id", query)
        with self._database.read() as reader:
            rows = reader.execute(
                f"""SELECT time_ns, id, record FROM audit WHERE tenant = ?{period} AND {sql}{further}
                    ORDER BY time_ns DESC, id DESC LIMIT ?""",
                [query.tenant, *bounds, *values, *key, query.limit + 1],
            ).fetchall()
        page = paging.page(rows, query.limit)
        return Page(items=[unpack(record, Audit) for record in page.items], next_key=page.next_key)

    def prune_audit(self, before_ns: int) -> int:
        """Drop entries that are older; returns how many went."""
        with self._database.write() as writer:
            return writer.execute("DELETE FROM audit WHERE time_ns < ?", (column(before_ns),)).rowcount

    def remember(self, tenant: str, idempotency_key: str, request_hash: str, response: bytes) -> None:
        """Keep the answer of a write for a day; the first answer to a key stays."""
        now_ns = self._clock.now_ns()
        with self._database.write() as writer:
            writer.execute("DELETE FROM remembered WHERE time_ns <= ?", (now_ns - REMEMBERED_NS,))
            writer.execute(
                "INSERT OR IGNORE INTO remembered (tenant, idempotency_key, request_hash, response, time_ns) VALUES (?, ?, ?, ?, ?)",
                (tenant, idempotency_key, request_hash, response, now_ns),
            )

    def recall(self, tenant: str, idempotency_key: str) -> tuple[str, bytes] | None:
        """(request_hash, response) of a write of the last day with this key."""
        with self._database.read() as reader:
            row = reader.execute(
                "SELECT request_hash, response FROM remembered WHERE tenant = ? AND idempotency_key = ? AND time_ns > ?",
                (tenant, idempotency_key, self._clock.now_ns() - REMEMBERED_NS),
            ).fetchone()
        return None if row is None else (row[0], row[1])


def put_audit(writer: sqlite3.Connection, audit: Audit) -> None:
    """Add an entry within the transaction of what it is about."""
    writer.execute(
        "INSERT INTO audit (tenant, id, time_ns, actor, action, subject, record) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (audit.tenant, audit.id, column(audit.time_ns), audit.actor, audit.action, audit.subject, pack(audit)),
    )


def _copy(triage: model.Triage, version: int) -> model.Triage:
    copied = unpack(pack(triage), model.Triage)
    copied.version = version
    return copied
