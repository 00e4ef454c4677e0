"""Outbox on SQLite: messages waiting to be delivered, and the record of every try."""

import sqlite3
from collections.abc import Sequence
from typing import Final

from firstfault_server.adapters.sqlite import paging
from firstfault_server.adapters.sqlite.database import Database
from firstfault_server.adapters.sqlite.encoding import column, pack, unpack
from firstfault_server.adapters.sqlite.search_sql import Columns, Condition, compile_expression, nowhere
from firstfault_server.core import search_fields
from firstfault_server.ports import Delivery, ListQuery, Message, Page

_COLUMNS: Final = {"destination": "destination", "incident": "incident", "message": "message", "kind": "kind"}
_FLAGS: Final[dict[tuple[str, str], Condition]] = {
    ("delivered", "true"): ("delivered", []),
    ("delivered", "false"): ("NOT delivered", []),
}
# Messages about one incident reach a destination in order: a later one waits for the one before.
_FIRST_OF_ITS_QUEUE: Final = """NOT EXISTS (SELECT 1 FROM message earlier WHERE earlier.tenant = m.tenant
    AND earlier.incident = m.incident AND earlier.destination = m.destination AND earlier.number < m.number
    AND earlier.state = 'waiting')"""


class SqliteOutbox:
    """One row per message, one per try."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, messages: Sequence[Message]) -> None:
        """Insert; an id that is there already stays as it is."""
        with self._database.write() as writer:
            add_messages(writer, messages)

    def due(self, now_ns: int, limit: int) -> list[Message]:
        """Waiting messages whose time has come, longest due first; of one incident and destination only the lowest number."""
        with self._database.read() as reader:
            rows = reader.execute(
                f"""SELECT m.record FROM message m WHERE m.state = 'waiting' AND m.next_try_ns <= ? AND {_FIRST_OF_ITS_QUEUE}
                    ORDER BY m.next_try_ns, m.created_ns, m.id LIMIT ?""",
                (column(now_ns), limit),
            ).fetchall()
        return [unpack(record, Message) for (record,) in rows]

    def record(self, message: Message, delivery: Delivery) -> None:
        """Store the message's new state and the try, in one transaction."""
        with self._database.write() as writer:
            _put(writer, "INSERT OR REPLACE", message)
            writer.execute(
                """INSERT OR REPLACE INTO delivery (tenant, id, time_ns, destination, incident, message, kind, delivered, record)
                    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)""",
                (
                    *(delivery.tenant, delivery.id, column(delivery.time_ns), delivery.destination, delivery.incident),
                    *(delivery.message, delivery.kind, delivery.delivered, pack(delivery)),
                ),
            )

    def messages(self, tenant: str, incident_id: str) -> list[Message]:
        """All messages of an incident, by destination and number."""
        with self._database.read() as reader:
            rows = reader.execute(
                "SELECT record FROM message WHERE tenant = ? AND incident = ? ORDER BY destination, number, id", (tenant, incident_id)
            ).fetchall()
        return [unpack(record, Message) for (record,) in rows]

    def deliveries(self, query: ListQuery) -> Page[Delivery]:
        """Delivery log, newest first. Search keys: see `core.search_fields.DELIVERY`. Raises SearchError."""
        target = Columns(fields=search_fields.DELIVERY, columns=_COLUMNS, flags=_FLAGS, fts=nowhere)
        sql, values = compile_expression(query.where, target)
        period, bounds = paging.period("time_ns", query)
        further, key = paging.beyond("time_ns", "id", query)
        with self._database.read() as reader:
            rows = reader.execute(
                f"""SELECT time_ns, id, record FROM delivery WHERE tenant = ?{period} AND {sql}{further}
                    ORDER BY time_ns DESC, id DESC LIMIT ?""",
                [query.tenant, *bounds, *values, *key, query.limit + 1],
            ).fetchall()
        page = paging.page(rows, query.limit)
        return Page(items=[unpack(record, Delivery) for record in page.items], next_key=page.next_key)

    def next_due_ns(self) -> int | None:
        """When the next waiting message is due."""
        with self._database.read() as reader:
            due: int | None = reader.execute(
                f"SELECT min(m.next_try_ns) FROM message m WHERE m.state = 'waiting' AND {_FIRST_OF_ITS_QUEUE}"
            ).fetchone()[0]
        return due

    def prune_deliveries(self, before_ns: int) -> int:
        """Drop tries that are older; returns how many went."""
        with self._database.write() as writer:
            return writer.execute("DELETE FROM delivery WHERE time_ns < ?", (column(before_ns),)).rowcount

    def forget(self, incidents: Sequence[tuple[str, str]]) -> None:
        """Drop the messages of incidents (tenant, id) that are no more, those that wait too."""
        with self._database.write() as writer:
            writer.executemany("DELETE FROM message WHERE tenant = ? AND incident = ?", incidents)


def add_messages(writer: sqlite3.Connection, messages: Sequence[Message]) -> None:
    """Insert new messages within a transaction."""
    for message in messages:
        _put(writer, "INSERT OR IGNORE", message)


def _put(writer: sqlite3.Connection, verb: str, message: Message) -> None:
    writer.execute(
        f"""{verb} INTO message (id, tenant, destination, incident, number, state, next_try_ns, created_ns, record)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)""",
        (
            *(message.id, message.tenant, message.destination, message.incident, message.number),
            *(message.state, column(message.next_try_ns), column(message.created_ns), pack(message)),
        ),
    )
