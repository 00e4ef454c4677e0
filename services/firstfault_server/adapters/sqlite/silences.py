"""SilenceStore on SQLite: silences with compare-and-set; a change and its audit entry commit together."""

from typing import Final

import msgspec

from firstfault_server.adapters.sqlite import paging
from firstfault_server.adapters.sqlite.database import Database
from firstfault_server.adapters.sqlite.encoding import column, pack, unpack
from firstfault_server.adapters.sqlite.search_sql import Columns, Condition, compile_expression, nowhere
from firstfault_server.adapters.sqlite.triage import put_audit
from firstfault_server.core import model, search_fields
from firstfault_server.ports import MAX_SILENCES, Audit, ListQuery, NotFound, Page, VersionConflict

_COLUMNS: Final = {"author": "author"}


class SqliteSilenceStore:
    """One row per silence."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def silence(self, tenant: str, silence_id: str) -> model.Silence:
        """Raises NotFound."""
        with self._database.read() as reader:
            row = reader.execute("SELECT record FROM silence WHERE tenant = ? AND id = ?", (tenant, silence_id)).fetchone()
        if row is None:
            raise NotFound(f"no silence {silence_id!r}")
        return unpack(row[0], model.Silence)

    def put_silence(self, silence: model.Silence, audit: Audit) -> model.Silence:
        """Write version+1 if the stored version (0: none) equals `silence.version`; else VersionConflict."""
        with self._database.write() as writer:
            row = writer.execute("SELECT version FROM silence WHERE tenant = ? AND id = ?", (silence.tenant, silence.id)).fetchone()
            version = 0 if row is None else row[0]
            if version != silence.version:
                raise VersionConflict(f"silence {silence.id!r} is at version {version}, not {silence.version}")
            written = msgspec.structs.replace(silence, version=version + 1)
            writer.execute(
                """INSERT OR REPLACE INTO silence (tenant, id, version, created_ns, starts_ns, ends_ns, author, record)
                    VALUES (?, ?, ?, ?, ?, ?, ?, ?)""",
                (
                    *(written.tenant, written.id, written.version, column(written.created_ns)),
                    *(column(written.starts_ns), column(written.ends_ns), written.author, pack(written)),
                ),
            )
            put_audit(writer, audit)
        return written

    def silences(self, query: ListQuery, now_ns: int) -> Page[model.Silence]:
        """Newest first by creation. Search keys: see `core.search_fields.SILENCE`. Raises SearchError."""
        now = column(now_ns)
        flags: dict[tuple[str, str], Condition] = {
            ("is", "pending"): ("(starts_ns > ? AND ends_ns > ?)", [now, now]),
            ("is", "active"): ("(starts_ns <= ? AND ends_ns > ?)", [now, now]),
            ("is", "ended"): ("ends_ns <= ?", [now]),
        }
        target = Columns(fields=search_fields.SILENCE, columns=_COLUMNS, flags=flags, fts=nowhere)
        sql, values = compile_expression(query.where, target)
        period, bounds = paging.period("created_ns", query)
        further, key = paging.beyond("created_ns", "id", query)
        with self._database.read() as reader:
            rows = reader.execute(
                f"""SELECT created_ns, id, record FROM silence WHERE tenant = ?{period} AND {sql}{further}
                    ORDER BY created_ns DESC, id DESC LIMIT ?""",
                [query.tenant, *bounds, *values, *key, query.limit + 1],
            ).fetchall()
        page = paging.page(rows, query.limit)
        return Page(items=[unpack(record, model.Silence) for record in page.items], next_key=page.next_key)

    def ending_after(self, tenant: str, time_ns: int) -> list[model.Silence]:
        """Those that end later than a time, oldest first; of very many those that end last."""
        with self._database.read() as reader:
            rows = reader.execute(
                "SELECT record FROM silence WHERE tenant = ? AND ends_ns > ? ORDER BY ends_ns DESC, id DESC LIMIT ?",
                (tenant, column(time_ns), MAX_SILENCES),
            ).fetchall()
        found = [unpack(record, model.Silence) for (record,) in rows]
        return sorted(found, key=lambda silence: (silence.created_ns, silence.id))

    def prune_silences(self, before_ns: int) -> int:
        """Drop those that ended earlier; returns how many went."""
        with self._database.write() as writer:
            return writer.execute("DELETE FROM silence WHERE ends_ns < ?", (column(before_ns),)).rowcount
