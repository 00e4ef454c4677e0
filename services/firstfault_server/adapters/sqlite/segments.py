"""Events lie in segments in order of arrival; each has a table and a text index of its own, so that it can be dropped whole."""

import sqlite3
from typing import Final

import msgspec

DAY_NS: Final = 86_400 * 1_000_000_000


class Segment(msgspec.Struct, kw_only=True):
    """One stretch of events, as its row in `segment` says."""

    number: int
    next_doc: int
    """Rowid of the next event. Never reused, since the text index keeps the words of deleted rows."""
    size: int
    """Bytes of records and texts, before SQLite's own overhead."""
    first_ns: int
    last_ns: int
    first_received_ns: int
    last_received_ns: int

    @property
    def table(self) -> str:
        """Table of the records."""
        return f"event_{self.number}"

    @property
    def text_table(self) -> str:
        """FTS5 table of the words, without their text."""
        return f"event_text_{self.number}"

    def takes(self, received_ns: int, max_bytes: int) -> bool:
        """Whether an event received then belongs into it: same day, not yet full."""
        return self.size < max_bytes and self.first_received_ns // DAY_NS == received_ns // DAY_NS

    def widen(self, time_ns: int, received_ns: int, size: int) -> int:
        """Count an event in; returns its rowid."""
        self.size += size
        self.first_ns, self.last_ns = min(self.first_ns, time_ns), max(self.last_ns, time_ns)
        self.first_received_ns = min(self.first_received_ns, received_ns)
        self.last_received_ns = max(self.last_received_ns, received_ns)
        self.next_doc += 1
        return self.next_doc - 1


def read_segments(connection: sqlite3.Connection) -> list[Segment]:
    """All segments, oldest first."""
    return [
        Segment(
            number=row[0], next_doc=row[1], size=row[2], first_ns=row[3], last_ns=row[4], first_received_ns=row[5], last_received_ns=row[6]
        )
        for row in connection.execute(
            "SELECT segment, next_doc, bytes, first_ns, last_ns, first_received_ns, last_received_ns FROM segment ORDER BY segment"
        )
    ]


def create_segment(connection: sqlite3.Connection, time_ns: int, received_ns: int) -> Segment:
    """A new, empty segment that starts with an event of these times."""
    number = connection.execute(
        "INSERT INTO segment (next_doc, bytes, first_ns, last_ns, first_received_ns, last_received_ns) VALUES (1, 0, ?, ?, ?, ?)",
        (time_ns, time_ns, received_ns, received_ns),
    ).lastrowid
    assert number is not None
    segment = Segment(
        number=number, next_doc=1, size=0, first_ns=time_ns, last_ns=time_ns, first_received_ns=received_ns, last_received_ns=received_ns
    )
    table = segment.table
    connection.execute(
        f"""CREATE TABLE {table} (doc INTEGER PRIMARY KEY, tenant TEXT NOT NULL, id TEXT NOT NULL, time_ns INTEGER NOT NULL,
            received_ns INTEGER NOT NULL, run TEXT NOT NULL, attempt INTEGER, process TEXT NOT NULL, rank INTEGER, node TEXT NOT NULL,
            owner TEXT NOT NULL, event_name TEXT NOT NULL, severity INTEGER NOT NULL, fingerprint TEXT NOT NULL, symptom TEXT NOT NULL,
            trace TEXT NOT NULL, step INTEGER, exceptional INTEGER NOT NULL, record BLOB NOT NULL, UNIQUE (tenant, id))"""
    )
    connection.execute(f"CREATE INDEX {table}_time ON {table} (tenant, time_ns, id)")
    connection.execute(f"CREATE INDEX {table}_run ON {table} (tenant, run, time_ns, id)")
    for column in ("node", "symptom"):
        connection.execute(f"CREATE INDEX {table}_{column} ON {table} (tenant, {column}, time_ns, id)")
    # With what `fingerprints` reads, so that it need not look at the records.
    connection.execute(f"CREATE INDEX {table}_fingerprint ON {table} (tenant, fingerprint, time_ns, id, run, node)")
    connection.execute(
        f"CREATE VIRTUAL TABLE {segment.text_table} USING fts5(body, exception, content='', tokenize=\"ascii tokenchars '_'\")"
    )
    return segment


def save_segment(connection: sqlite3.Connection, segment: Segment) -> None:
    """Write back what `widen` changed."""
    connection.execute(
        """UPDATE segment SET next_doc = ?, bytes = ?, first_ns = ?, last_ns = ?, first_received_ns = ?, last_received_ns = ?
            WHERE segment = ?""",
        (
            segment.next_doc,
            segment.size,
            segment.first_ns,
            segment.last_ns,
            segment.first_received_ns,
            segment.last_received_ns,
            segment.number,
        ),
    )


def drop_segment(connection: sqlite3.Connection, segment: Segment) -> int:
    """Remove a segment; returns how many events it had."""
    count: int = connection.execute(f"SELECT count(*) FROM {segment.table}").fetchone()[0]
    connection.execute(f"DROP TABLE {segment.text_table}")
    connection.execute(f"DROP TABLE {segment.table}")
    connection.execute("DELETE FROM segment WHERE segment = ?", (segment.number,))
    return count
