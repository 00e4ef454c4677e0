"""ContextStore on SQLite: events with full text, dead letters."""

import sqlite3
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from firstfault_server.adapters.sqlite import paging
from firstfault_server.adapters.sqlite.database import Database
from firstfault_server.adapters.sqlite.encoding import column, storable, unpack
from firstfault_server.adapters.sqlite.search_sql import Columns, Condition, compile_expression, indexed
from firstfault_server.adapters.sqlite.segments import Segment, create_segment, drop_segment, read_segments, save_segment
from firstfault_server.core import fingerprints, model, search_fields
from firstfault_server.core.keyset import start_key
from firstfault_server.core.search_match import check
from firstfault_server.ports import ListQuery, NotFound, Page

SEGMENT_BYTES: Final = 64 << 20
"""A segment that has grown to this takes no more. Retention by size drops whole segments; a search gathers what matches of one
segment before it looks at the next older one."""
DEAD_LETTER_BYTES: Final = 64 << 20
"""What dead letters may take together; the oldest go first."""

# The attempt the run was in when it happened, unless the event says so itself (`core.search_fields.attempt_at`).
_ATTEMPT: Final = """coalesce(e.attempt,
    (SELECT max(a.number) FROM attempt a WHERE a.tenant = e.tenant AND a.run = e.run AND a.started_ns <= e.time_ns),
    (SELECT min(a.number) FROM attempt a WHERE a.tenant = e.tenant AND a.run = e.run))"""
_COLUMNS: Final = {
    "run": "e.run",
    "rank": "e.rank",
    "node": "e.node",
    "process": "e.process",
    "event": "e.event_name",
    "severity": "e.severity",
    "fingerprint": "e.fingerprint",
    "symptom": "e.symptom",
    "attempt": _ATTEMPT,
    "trace": "e.trace",
    "owner": "e.owner",
}
_FLAGS: Final[dict[tuple[str, str], Condition]] = {
    ("has", "rank"): ("e.rank IS NOT NULL", []),
    ("has", "node"): ("e.node != ''", []),
    ("has", "exception"): ("e.exceptional", []),
    ("has", "fingerprint"): ("e.fingerprint != ''", []),
    ("has", "trace"): ("e.trace != ''", []),
    ("has", "step"): ("e.step IS NOT NULL", []),
    ("has", "symptom"): ("e.symptom != ''", []),
}


class SqliteContextStore:
    """Events in segments with an FTS5 index each, searched newest first."""

    def __init__(self, database: Database, *, segment_bytes: int = SEGMENT_BYTES, dead_letter_bytes: int = DEAD_LETTER_BYTES) -> None:
        self._database = database
        self._segment_bytes = segment_bytes
        self._dead_letter_bytes = dead_letter_bytes

    def write_events(self, events: Sequence[model.Event]) -> None:
        """Insert; an id that is there already stays as it is. Flushed to disk with the next `Checkpoint.commit`."""
        fresh = {(event.tenant, event.event.id): event for event in map(_Storable.of, reversed(events))}
        if not fresh:
            return
        with self._database.write(durable=False) as writer:
            segments = read_segments(writer)
            for key in _known(writer, segments, list(fresh)):
                del fresh[key]
            current = segments[-1] if segments else None
            waiting: list[tuple[Any, ...]] = []
            words: list[tuple[int, str, str]] = []
            # The dictionary was filled from the back, so that the first of two equal ids stays.
            for event in reversed(list(fresh.values())):
                if current is None or not current.takes(event.received_ns, self._segment_bytes):
                    _flush(writer, current, waiting, words)
                    current = create_segment(writer, event.time_ns, event.received_ns)
                doc = current.widen(event.time_ns, event.received_ns, len(event.record) + len(event.body) + len(event.exception))
                waiting.append((doc, *event.row()))
                words.append((doc, event.body, event.exception))
            _flush(writer, current, waiting, words)

    def event(self, tenant: str, event_id: str) -> model.Event:
        """Raises NotFound."""
        with self._database.read() as reader:
            for segment in reversed(read_segments(reader)):
                row = reader.execute(
                    f"SELECT e.record, {_ATTEMPT} FROM {segment.table} e WHERE e.tenant = ? AND e.id = ?", (tenant, event_id)
                ).fetchone()
                if row is not None:
                    return _event(*row)
        raise NotFound(f"no event {event_id!r}")

    def events(self, query: ListQuery) -> Page[model.Event]:
        """Search keys: see `core.search_fields.EVENT`; free text over body and exception. Raises SearchError."""
        check(query.where, search_fields.EVENT)
        found: list[tuple[int, str, bytes, int | None]] = []
        further, key = paging.beyond("e.time_ns", "e.id", query)
        with self._database.read() as reader:
            for segment in _newest_first(read_segments(reader), query):
                if len(found) > query.limit and found[query.limit][0] > segment.last_ns:
                    break
                where, values = _where(segment, query)
                found += reader.execute(
                    f"""SELECT e.time_ns, e.id, e.record, {_ATTEMPT} FROM {segment.table} e WHERE {where}{further}
                        ORDER BY e.time_ns DESC, e.id DESC LIMIT ?""",
                    [*values, *key, query.limit + 1],
                )
                found.sort(key=lambda row: (row[0], row[1]), reverse=True)
        page = paging.page([(row[0], row[1], row) for row in found], query.limit)
        return Page(items=[_event(row[2], row[3]) for row in page.items], next_key=page.next_key)

    def fingerprints(self, query: ListQuery) -> Page[dict[str, Any]]:
        """Per fingerprint, latest first: fingerprint, symptom, type, message, count, first_seen_ns, last_seen_ns, runs, nodes."""
        check(query.where, search_fields.EVENT)
        after = start_key(query.after)
        totals: dict[str, tuple[int, int, int]] = {}
        with self._database.read() as reader:
            chosen = _newest_first(read_segments(reader), msgspec.structs.replace(query, after=None))
            for segment in chosen:
                where, values = _where(segment, query)
                for fingerprint, count, first, last in reader.execute(
                    f"""SELECT e.fingerprint, count(*), min(e.time_ns), max(e.time_ns) FROM {segment.table} e
                        WHERE {where} AND e.fingerprint != '' GROUP BY e.fingerprint""",
                    values,
                ):
                    known = totals.get(fingerprint, (0, first, last))
                    totals[fingerprint] = (known[0] + count, min(known[1], first), max(known[2], last))
            keys = sorted(((last, fingerprint) for fingerprint, (_, _, last) in totals.items()), reverse=True)
            page = paging.page([(*key, key[1]) for key in keys if after is None or key < after], query.limit)
            items = [_fingerprint(reader, chosen, query, fingerprint, totals[fingerprint]) for fingerprint in page.items]
        return Page(items=items, next_key=page.next_key)

    def write_dead_letters(self, letters: Sequence[model.DeadLetter]) -> None:
        """Keep what could not be used; the oldest go when they take too much together."""
        with self._database.write(durable=False) as writer:
            for letter, record in map(storable, letters):
                writer.execute(
                    "INSERT OR IGNORE INTO dead_letter (tenant, id, received_ns, bytes, record) VALUES (?, ?, ?, ?, ?)",
                    (letter.tenant, letter.id, column(letter.received_ns), len(record), record),
                )
            writer.execute(
                """DELETE FROM dead_letter WHERE received_ns <= (
                    SELECT max(received_ns) FROM (
                        SELECT received_ns, sum(bytes) OVER (ORDER BY received_ns DESC) AS so_far FROM dead_letter
                    ) WHERE so_far > ?)""",
                (self._dead_letter_bytes,),
            )

    def dead_letter(self, tenant: str, letter_id: str) -> model.DeadLetter:
        """Raises NotFound."""
        with self._database.read() as reader:
            row = reader.execute("SELECT record FROM dead_letter WHERE tenant = ? AND id = ?", (tenant, letter_id)).fetchone()
        if row is None:
            raise NotFound(f"no dead letter {letter_id!r}")
        return unpack(row[0], model.DeadLetter)

    def dead_letters(self, query: ListQuery) -> Page[model.DeadLetter]:
        """By time of receipt, newest first."""
        period, bounds = paging.period("received_ns", query)
        further, key = paging.beyond("received_ns", "id", query)
        with self._database.read() as reader:
            rows = reader.execute(
                f"""SELECT received_ns, id, record FROM dead_letter WHERE tenant = ?{period}{further}
                    ORDER BY received_ns DESC, id DESC LIMIT ?""",
                [query.tenant, *bounds, *key, query.limit + 1],
            ).fetchall()
        page = paging.page(rows, query.limit)
        return Page(items=[unpack(record, model.DeadLetter) for record in page.items], next_key=page.next_key)

    def prune(self, before_ns: int) -> int:
        """Drop what was received earlier; returns how many events went."""
        gone = 0
        with self._database.write() as writer:
            for segment in read_segments(writer):
                if segment.last_received_ns < before_ns:
                    gone += drop_segment(writer, segment)
                elif segment.first_received_ns < before_ns:
                    gone += writer.execute(f"DELETE FROM {segment.table} WHERE received_ns < ?", (before_ns,)).rowcount
                    segment.first_received_ns = before_ns
                    save_segment(writer, segment)
            writer.execute("DELETE FROM dead_letter WHERE received_ns < ?", (before_ns,))
        self._database.reclaim()
        return gone

    def extents(self) -> list[tuple[int, int]]:
        """(end, bytes) of each segment, oldest first: what `prune` to that time would free."""
        with self._database.read() as reader:
            return [(segment.last_received_ns + 1, segment.size) for segment in read_segments(reader)]


class _Storable(msgspec.Struct):
    """An event with what its row needs."""

    tenant: str
    event: model.Event
    record: bytes
    time_ns: int
    received_ns: int
    body: str
    exception: str

    @classmethod
    def of(cls, event: model.Event) -> "_Storable":
        event, record = storable(event)
        body, exception = map(indexed, search_fields.event_texts(event))
        return cls(event.identity.tenant, event, record, column(event.time_ns), column(event.received_ns), body, exception)

    def row(self) -> tuple[Any, ...]:
        event, identity = self.event, self.event.identity
        return (
            *(self.tenant, event.id, self.time_ns, self.received_ns, identity.run, event.attempt, identity.process),
            *(None if identity.rank is None else column(identity.rank), identity.node, identity.owner, event.event_name),
            *(column(event.severity), event.fingerprint, event.symptom, event.trace_id),
            *(None if event.step is None else column(event.step), event.exception is not None, self.record),
        )


def _known(writer: sqlite3.Connection, segments: list[Segment], keys: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Those of the keys that are stored already."""
    asked = msgspec.json.encode(keys).decode()
    return [
        (tenant, event_id)
        for segment in segments
        for tenant, event_id in writer.execute(
            f"""SELECT e.tenant, e.id FROM json_each(?) AS asked CROSS JOIN {segment.table} e
                ON e.tenant = asked.value ->> 0 AND e.id = asked.value ->> 1""",
            (asked,),
        )
    ]


def _flush(writer: sqlite3.Connection, segment: Segment | None, rows: list[tuple[Any, ...]], words: list[tuple[int, str, str]]) -> None:
    if segment is None or not rows:
        return
    writer.executemany(f"INSERT INTO {segment.table} VALUES ({', '.join('?' * len(rows[0]))})", rows)
    writer.executemany(f"INSERT INTO {segment.text_table} (rowid, body, exception) VALUES (?, ?, ?)", words)
    save_segment(writer, segment)
    rows.clear()
    words.clear()


def _newest_first(segments: list[Segment], query: ListQuery) -> list[Segment]:
    """Segments that may hold what the query asks for, in order of their newest event."""
    since = query.since_ns
    until = query.until_ns
    chosen = [
        segment for segment in segments if (since is None or segment.last_ns >= since) and (until is None or segment.first_ns < until)
    ]
    return sorted(chosen, key=lambda segment: segment.last_ns, reverse=True)


def _where(segment: Segment, query: ListQuery) -> Condition:
    table = segment.text_table

    def fts(match: str) -> Condition:
        return f"e.doc IN (SELECT rowid FROM {table} WHERE {table} MATCH ?)", [match]

    target = Columns(fields=search_fields.EVENT, columns=_COLUMNS, flags=_FLAGS, fts=fts)
    sql, values = compile_expression(query.where, target)
    period, bounds = paging.period("e.time_ns", query)
    return f"e.tenant = ?{period} AND {sql}", [query.tenant, *bounds, *values]


def _fingerprint(
    reader: sqlite3.Connection, segments: list[Segment], query: ListQuery, fingerprint: str, total: tuple[int, int, int]
) -> dict[str, Any]:
    """One item of `fingerprints`; text, runs and nodes come from its latest events."""
    latest: list[tuple[int, str, str, str]] = []
    records: dict[str, Segment] = {}
    for segment in segments:
        if len(latest) >= fingerprints.LATEST and latest[fingerprints.LATEST - 1][0] > segment.last_ns:
            break
        where, values = _where(segment, query)
        rows = reader.execute(
            f"""SELECT e.time_ns, e.id, e.run, e.node FROM {segment.table} e WHERE {where} AND e.fingerprint = ?
                ORDER BY e.time_ns DESC, e.id DESC LIMIT ?""",
            [*values, fingerprint, fingerprints.LATEST],
        ).fetchall()
        if rows:
            records[rows[0][1]] = segment
        latest = sorted([*latest, *rows], key=lambda row: row[:2], reverse=True)
    newest = latest[0][1]
    record: bytes = reader.execute(
        f"SELECT record FROM {records[newest].table} WHERE tenant = ? AND id = ?", (query.tenant, newest)
    ).fetchone()[0]
    places = [(run, node) for _, _, run, node in latest[: fingerprints.LATEST]]
    return fingerprints.summary(unpack(record, model.Event), *total, places)


def _event(record: bytes, attempt: int | None) -> model.Event:
    event = unpack(record, model.Event)
    event.attempt = attempt
    return event
