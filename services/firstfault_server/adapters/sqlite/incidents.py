"""IncidentStore on SQLite: incidents with their revisions, runs with their attempts."""

import sqlite3
from collections.abc import Sequence

from firstfault_server.adapters.sqlite import paging
from firstfault_server.adapters.sqlite.database import Database
from firstfault_server.adapters.sqlite.encoding import column, storable, unpack
from firstfault_server.adapters.sqlite.indexing import index_document
from firstfault_server.adapters.sqlite.search_sql import Condition, Terms, compile_expression
from firstfault_server.core import attempts, model, search_fields
from firstfault_server.core.documents import resolved_since
from firstfault_server.core.revisions import superfluous
from firstfault_server.ports import ListQuery, NotFound, Page


class SqliteIncidentStore:
    """Incidents and runs as detection wrote them, searched together with people's marks."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def write_incidents(self, incidents: Sequence[model.Incident]) -> None:
        """Upsert; a revision lower than the stored one changes nothing."""
        with self._database.write() as writer:
            for incident in incidents:
                put_incident(writer, incident)

    def incident(self, tenant: str, incident_id: str) -> model.Incident:
        """Raises NotFound."""
        with self._database.read() as reader:
            row = reader.execute("SELECT record FROM incident WHERE tenant = ? AND id = ?", (tenant, incident_id)).fetchone()
        if row is None:
            raise NotFound(f"no incident {incident_id!r}")
        return unpack(row[0], model.Incident)

    def incidents(self, query: ListQuery, now_ns: int) -> Page[tuple[model.Incident, model.Triage]]:
        """Newest first by opening time. Search keys: see `core.search_fields.INCIDENT`. Raises SearchError."""
        muted: Condition = ("coalesce(i.muted_until_ns > ?, 0)", [column(now_ns)])
        sql, values = compile_expression(query.where, Terms(kind="incident", fields=search_fields.INCIDENT, muted=muted))
        period, bounds = paging.period("i.opened_ns", query)
        further, key = paging.beyond("i.opened_ns", "i.id", query)
        with self._database.read() as reader:
            rows = reader.execute(
                f"""SELECT i.opened_ns, i.id, i.record, t.record FROM incident i
                    LEFT JOIN triage t ON t.tenant = i.tenant AND t.incident = i.id
                    WHERE i.tenant = ?{period} AND {sql}{further} ORDER BY i.opened_ns DESC, i.id DESC LIMIT ?""",
                [query.tenant, *bounds, *values, *key, query.limit + 1],
            ).fetchall()
        page = paging.page([(row[0], row[1], row) for row in rows], query.limit)
        return Page(
            items=[(unpack(row[2], model.Incident), _triage(query.tenant, row[1], row[3])) for row in page.items], next_key=page.next_key
        )

    def revisions(self, tenant: str, incident_id: str) -> list[model.Incident]:
        """Every stored revision, oldest first; of very many the middle is gone (`core.revisions`). Empty for an unknown incident."""
        with self._database.read() as reader:
            rows = reader.execute(
                "SELECT record FROM incident_revision WHERE tenant = ? AND id = ? ORDER BY revision", (tenant, incident_id)
            ).fetchall()
        return [unpack(record, model.Incident) for (record,) in rows]

    def write_runs(self, runs: Sequence[model.RunStatus]) -> None:
        """Upsert; a revision lower than the stored one changes nothing."""
        with self._database.write() as writer:
            for run in runs:
                put_run(writer, run)

    def run(self, tenant: str, run: str) -> model.RunStatus:
        """Raises NotFound."""
        with self._database.read() as reader:
            row = reader.execute("SELECT record FROM run WHERE tenant = ? AND id = ?", (tenant, run)).fetchone()
        if row is None:
            raise NotFound(f"no run {run!r}")
        return unpack(row[0], model.RunStatus)

    def runs(self, query: ListQuery) -> Page[model.RunStatus]:
        """Newest first by last update. Search keys: see `core.search_fields.RUN`. Raises SearchError."""
        sql, values = compile_expression(query.where, Terms(kind="run", fields=search_fields.RUN))
        period, bounds = paging.period("updated_ns", query)
        further, key = paging.beyond("updated_ns", "id", query)
        with self._database.read() as reader:
            rows = reader.execute(
                f"""SELECT updated_ns, id, record FROM run WHERE tenant = ?{period} AND {sql}{further}
                    ORDER BY updated_ns DESC, id DESC LIMIT ?""",
                [query.tenant, *bounds, *values, *key, query.limit + 1],
            ).fetchall()
        page = paging.page(rows, query.limit)
        return Page(items=[unpack(record, model.RunStatus) for record in page.items], next_key=page.next_key)

    def prune_incidents(self, before_ns: int, limit: int) -> list[tuple[str, str]]:
        """Drop what is resolved since before a time, with its marks; returns (tenant, id) of those that went."""
        gone: list[tuple[str, str]] = []
        with self._database.write() as writer:
            rows = writer.execute(
                """SELECT i.doc, i.tenant, i.id, i.record, t.record FROM incident i
                    LEFT JOIN triage t ON t.tenant = i.tenant AND t.incident = i.id
                    WHERE i.opened_ns < ? AND i.doc IN (SELECT doc FROM term WHERE kind = 'incident' AND key = 'is' AND text = 'resolved')
                    ORDER BY i.opened_ns""",
                (column(before_ns),),
            )
            over = []
            for doc, tenant, incident_id, record, marks in rows:
                since = resolved_since(unpack(record, model.Incident), _triage(tenant, incident_id, marks))
                if since is not None and since < before_ns:
                    over.append((doc, tenant, incident_id))
                if len(over) == limit:
                    break
            for doc, tenant, incident_id in over:
                _drop(writer, "incident", doc)
                writer.execute("DELETE FROM incident_revision WHERE tenant = ? AND id = ?", (tenant, incident_id))
                writer.execute("DELETE FROM triage WHERE tenant = ? AND incident = ?", (tenant, incident_id))
                gone.append((tenant, incident_id))
        return gone

    def prune_runs(self, before_ns: int, limit: int) -> int:
        """Drop runs last updated before a time; one that an incident in the store is about stays."""
        with self._database.write() as writer:
            rows = writer.execute(
                """SELECT r.doc, r.tenant, r.id FROM run r WHERE r.updated_ns < ? AND NOT EXISTS (
                    SELECT 1 FROM term JOIN incident i ON i.doc = term.doc
                    WHERE term.kind = 'incident' AND term.key = 'run' AND term.text = r.id AND i.tenant = r.tenant)
                    ORDER BY r.updated_ns LIMIT ?""",
                (column(before_ns), limit),
            ).fetchall()
            for doc, tenant, run in rows:
                _drop(writer, "run", doc)
                writer.execute("DELETE FROM attempt WHERE tenant = ? AND run = ?", (tenant, run))
        return len(rows)


def _drop(writer: sqlite3.Connection, kind: str, doc: int) -> None:
    """Remove a row of table `kind` and what it can be searched by."""
    writer.execute("DELETE FROM term WHERE kind = ? AND doc = ?", (kind, doc))
    writer.execute(f"DELETE FROM {kind}_text WHERE rowid = ?", (doc,))
    writer.execute(f"DELETE FROM {kind} WHERE doc = ?", (doc,))


def put_incident(writer: sqlite3.Connection, incident: model.Incident) -> None:
    """Upsert one incident within a transaction."""
    incident, record = storable(incident)
    row = writer.execute(
        """INSERT INTO incident (tenant, id, revision, opened_ns, terms, record) VALUES (?, ?, ?, ?, x'', ?)
            ON CONFLICT (tenant, id) DO UPDATE SET revision = excluded.revision, opened_ns = excluded.opened_ns, record = excluded.record
            WHERE excluded.revision >= revision RETURNING doc""",
        (incident.tenant, incident.id, incident.revision, column(incident.opened_at), record),
    ).fetchone()
    if row is None:
        return
    writer.execute(
        "INSERT OR REPLACE INTO incident_revision (tenant, id, revision, record) VALUES (?, ?, ?, ?)",
        (incident.tenant, incident.id, incident.revision, record),
    )
    _drop_superfluous(writer, incident.tenant, incident.id)
    _index_incident(writer, row[0], incident, read_triage(writer, incident.tenant, incident.id))


def mark_incident(writer: sqlite3.Connection, triage: model.Triage) -> None:
    """Bring what an incident can be searched by up to date with people's marks, if the incident is there."""
    row = writer.execute("SELECT doc, record FROM incident WHERE tenant = ? AND id = ?", (triage.tenant, triage.incident)).fetchone()
    if row is not None:
        _index_incident(writer, row[0], unpack(row[1], model.Incident), triage)


def read_triage(connection: sqlite3.Connection, tenant: str, incident_id: str) -> model.Triage:
    """People's marks; version 0 when there are none."""
    row = connection.execute("SELECT record FROM triage WHERE tenant = ? AND incident = ?", (tenant, incident_id)).fetchone()
    return _triage(tenant, incident_id, None if row is None else row[0])


def put_run(writer: sqlite3.Connection, run: model.RunStatus) -> None:
    """Upsert one run within a transaction."""
    run, record = storable(run)
    row = writer.execute(
        """INSERT INTO run (tenant, id, revision, updated_ns, terms, record) VALUES (?, ?, ?, ?, x'', ?)
            ON CONFLICT (tenant, id) DO UPDATE SET revision = excluded.revision, updated_ns = excluded.updated_ns, record = excluded.record
            WHERE excluded.revision >= revision RETURNING doc""",
        (run.tenant, run.run, run.revision, column(run.updated_ns), record),
    ).fetchone()
    if row is None:
        return
    index_document(writer, "run", row[0], search_fields.run_document(run))
    # A run whose attempts have no known start is in its attempt at any time.
    starts = attempts.starts(run) or [(run.attempt, -(1 << 63))]
    writer.execute("DELETE FROM attempt WHERE tenant = ? AND run = ?", (run.tenant, run.run))
    writer.executemany(
        "INSERT INTO attempt (tenant, run, number, started_ns) VALUES (?, ?, ?, ?)",
        [(run.tenant, run.run, number, column(started)) for number, started in starts],
    )


def _drop_superfluous(writer: sqlite3.Connection, tenant: str, incident_id: str) -> None:
    revisions = [
        revision
        for (revision,) in writer.execute(
            "SELECT revision FROM incident_revision WHERE tenant = ? AND id = ? ORDER BY revision", (tenant, incident_id)
        )
    ]
    writer.executemany(
        "DELETE FROM incident_revision WHERE tenant = ? AND id = ? AND revision = ?",
        [(tenant, incident_id, revision) for revision in superfluous(revisions)],
    )


def _index_incident(writer: sqlite3.Connection, doc: int, incident: model.Incident, triage: model.Triage) -> None:
    until = triage.muted_until_ns
    writer.execute("UPDATE incident SET muted_until_ns = ? WHERE doc = ?", (None if until is None else column(until), doc))
    index_document(writer, "incident", doc, search_fields.incident_document(incident, triage))


def _triage(tenant: str, incident_id: str, record: bytes | None) -> model.Triage:
    return model.Triage(tenant=tenant, incident=incident_id) if record is None else unpack(record, model.Triage)
