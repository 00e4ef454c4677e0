"""All embedded state but the rollups in one SQLite file."""

from pathlib import Path

import msgspec

from firstfault_server.adapters.sqlite.access import SqliteAccessStore
from firstfault_server.adapters.sqlite.checkpoint import SqliteCheckpoint
from firstfault_server.adapters.sqlite.database import Database
from firstfault_server.adapters.sqlite.events import SqliteContextStore
from firstfault_server.adapters.sqlite.incidents import SqliteIncidentStore
from firstfault_server.adapters.sqlite.outbox import SqliteOutbox
from firstfault_server.adapters.sqlite.silences import SqliteSilenceStore
from firstfault_server.adapters.sqlite.triage import SqliteTriageStore
from firstfault_server.ports import Clock


class SqliteStores(msgspec.Struct, frozen=True):
    """Every store over one file."""

    database: Database
    context: SqliteContextStore
    incidents: SqliteIncidentStore
    triage: SqliteTriageStore
    silences: SqliteSilenceStore
    access: SqliteAccessStore
    outbox: SqliteOutbox
    checkpoint: SqliteCheckpoint

    def close(self) -> None:
        """Release the file."""
        self.database.close()


def open_stores(path: Path, clock: Clock, *, max_bytes: int | None = None) -> SqliteStores:
    """Open or create the file; its folder must exist. `max_bytes` limits its size. Raises StoreUnavailable."""
    database = Database(path, max_bytes=max_bytes)
    return SqliteStores(
        database=database,
        context=SqliteContextStore(database),
        incidents=SqliteIncidentStore(database),
        triage=SqliteTriageStore(database, clock),
        silences=SqliteSilenceStore(database),
        access=SqliteAccessStore(database),
        outbox=SqliteOutbox(database),
        checkpoint=SqliteCheckpoint(database),
    )
