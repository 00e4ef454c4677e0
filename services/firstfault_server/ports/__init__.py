"""What the service needs from the outside world, as protocols; adapters implement them, contract suites test them.

Every store call is blocking and safe to call from several threads; async callers go through `asyncio.to_thread`.
A store that cannot answer raises `StoreUnavailable`; one that is out of space raises `StorageFull`.
"""

from firstfault_server.ports.access import AccessKey, AccessStore, Destination, Permission
from firstfault_server.ports.aggregates import AggregateStore, SeriesPoint, SeriesQuery
from firstfault_server.ports.checkpoint import Checkpoint, Commit
from firstfault_server.ports.delivery import Delivery, Message, MessageKind, Outbox
from firstfault_server.ports.errors import NotFound, StorageFull, StoreUnavailable, VersionConflict
from firstfault_server.ports.lists import ListQuery, Page, walk
from firstfault_server.ports.log import Clock, Log, LogEntry, Signal
from firstfault_server.ports.stores import MAX_SILENCES, Audit, ContextStore, IncidentStore, SilenceStore, TriageStore

__all__ = [
    "MAX_SILENCES",
    "AccessKey",
    "AccessStore",
    "AggregateStore",
    "Audit",
    "Checkpoint",
    "Clock",
    "Commit",
    "ContextStore",
    "Delivery",
    "Destination",
    "IncidentStore",
    "ListQuery",
    "Log",
    "LogEntry",
    "Message",
    "MessageKind",
    "NotFound",
    "Outbox",
    "Page",
    "Permission",
    "SeriesPoint",
    "SeriesQuery",
    "Signal",
    "SilenceStore",
    "StorageFull",
    "StoreUnavailable",
    "TriageStore",
    "VersionConflict",
    "walk",
]
