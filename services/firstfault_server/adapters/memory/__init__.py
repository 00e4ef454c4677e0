"""Every store in memory: for tests and for work on a machine without the engines. Nothing outlives the process."""

import msgspec

from firstfault_server.adapters.memory.access import MemoryAccessStore
from firstfault_server.adapters.memory.aggregates import MemoryAggregateStore
from firstfault_server.adapters.memory.context import MemoryContextStore
from firstfault_server.adapters.memory.incidents import MemoryIncidentStore, MemoryTriageStore
from firstfault_server.adapters.memory.outbox import MemoryCheckpoint, MemoryOutbox
from firstfault_server.adapters.memory.silences import MemorySilenceStore
from firstfault_server.adapters.memory.state import State
from firstfault_server.ports import Clock


class MemoryStores(msgspec.Struct, frozen=True):
    """Every store over one state."""

    context: MemoryContextStore
    incidents: MemoryIncidentStore
    triage: MemoryTriageStore
    silences: MemorySilenceStore
    access: MemoryAccessStore
    outbox: MemoryOutbox
    checkpoint: MemoryCheckpoint
    aggregates: MemoryAggregateStore

    def close(self) -> None:
        """Nothing to release."""


def open_stores(clock: Clock) -> MemoryStores:
    """New, empty stores."""
    state = State()
    return MemoryStores(
        context=MemoryContextStore(state),
        incidents=MemoryIncidentStore(state),
        triage=MemoryTriageStore(state, clock),
        silences=MemorySilenceStore(state),
        access=MemoryAccessStore(state),
        outbox=MemoryOutbox(state),
        checkpoint=MemoryCheckpoint(state),
        aggregates=MemoryAggregateStore(),
    )
