"""Checkpoint on SQLite: what the embedded host makes durable, in one transaction."""

from collections.abc import Iterable

from firstfault_server.adapters.sqlite.database import Database
from firstfault_server.adapters.sqlite.incidents import put_incident, put_run
from firstfault_server.adapters.sqlite.outbox import add_messages
from firstfault_server.ports import Commit


class SqliteCheckpoint:
    """Snapshots, log position, incidents, runs and outbox of one host."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def commit(self, commit: Commit) -> None:
        """All or nothing; events written before are flushed with it. Raises StorageFull, StoreUnavailable."""
        removed = [key for key, state in commit.snapshots.items() if state is None]
        kept = [(*key, state) for key, state in commit.snapshots.items() if state is not None]
        with self._database.write() as writer:
            writer.executemany("DELETE FROM snapshot WHERE stage = ? AND key = ?", removed)
            writer.executemany("INSERT OR REPLACE INTO snapshot (stage, key, state) VALUES (?, ?, ?)", kept)
            for run in commit.runs:
                put_run(writer, run)
            for incident in commit.incidents:
                put_incident(writer, incident)
            add_messages(writer, commit.messages)
            writer.execute("INSERT OR REPLACE INTO position (one, position) VALUES (1, ?)", (commit.position,))

    def position(self) -> str | None:
        """Position of the last commit."""
        with self._database.read() as reader:
            row = reader.execute("SELECT position FROM position").fetchone()
        return None if row is None else str(row[0])

    def snapshots(self) -> Iterable[tuple[str, str, bytes]]:
        """(stage, key, state) of everything kept."""
        with self._database.read() as reader:
            rows: list[tuple[str, str, bytes]] = reader.execute("SELECT stage, key, state FROM snapshot ORDER BY stage, key").fetchall()
        return rows
