"""Outbox and Checkpoint in memory."""

from collections.abc import Iterable, Sequence

from firstfault_server.adapters.memory.incidents import MemoryIncidentStore
from firstfault_server.adapters.memory.state import State, copied, listed
from firstfault_server.core import search_fields
from firstfault_server.ports import Commit, Delivery, ListQuery, Message, Page


class MemoryOutbox:
    """Messages and tries."""

    def __init__(self, state: State) -> None:
        self._state = state

    def add(self, messages: Sequence[Message]) -> None:
        """Insert; an id that is there already stays as it is."""
        with self._state.lock:
            for message in messages:
                self._state.messages.setdefault(message.id, copied(message))

    def due(self, now_ns: int, limit: int) -> list[Message]:
        """Waiting messages whose time has come, longest due first; of one incident and destination only the lowest number."""
        chosen = [message for message in self._first_of_each_queue() if message.next_try_ns <= now_ns]
        return sorted(chosen, key=lambda message: (message.next_try_ns, message.created_ns, message.id))[:limit]

    def record(self, message: Message, delivery: Delivery) -> None:
        """Store the message's new state and the try."""
        with self._state.lock:
            self._state.messages[message.id] = copied(message)
            self._state.deliveries[delivery.tenant, delivery.id] = copied(delivery)

    def messages(self, tenant: str, incident_id: str) -> list[Message]:
        """All messages of an incident, by destination and number."""
        with self._state.lock:
            own = [
                copied(message) for message in self._state.messages.values() if (message.tenant, message.incident) == (tenant, incident_id)
            ]
        return sorted(own, key=lambda message: (message.destination, message.number, message.id))

    def deliveries(self, query: ListQuery) -> Page[Delivery]:
        """Delivery log, newest first. Search keys: see `core.search_fields.DELIVERY`. Raises SearchError."""
        with self._state.lock:
            rows = [(item.time_ns, item.id, copied(item)) for item in self._state.deliveries.values() if item.tenant == query.tenant]
        return listed(query, search_fields.DELIVERY, rows, _delivery_document)

    def next_due_ns(self) -> int | None:
        """When the next waiting message is due."""
        return min((message.next_try_ns for message in self._first_of_each_queue()), default=None)

    def prune_deliveries(self, before_ns: int) -> int:
        """Drop tries that are older; returns how many went."""
        with self._state.lock:
            gone = [key for key, delivery in self._state.deliveries.items() if delivery.time_ns < before_ns]
            for key in gone:
                del self._state.deliveries[key]
        return len(gone)

    def forget(self, incidents: Sequence[tuple[str, str]]) -> None:
        """Drop the messages of incidents (tenant, id) that are no more, those that wait too."""
        forgotten = set(incidents)
        with self._state.lock:
            for message in list(self._state.messages.values()):
                if (message.tenant, message.incident) in forgotten:
                    del self._state.messages[message.id]

    def _first_of_each_queue(self) -> list[Message]:
        with self._state.lock:
            waiting = [copied(message) for message in self._state.messages.values() if message.state == "waiting"]
        lowest: dict[tuple[str, str, str], int] = {}
        for message in waiting:
            queue = (message.tenant, message.incident, message.destination)
            lowest[queue] = min(lowest.get(queue, message.number), message.number)
        return [message for message in waiting if message.number == lowest[message.tenant, message.incident, message.destination]]


class MemoryCheckpoint:
    """Snapshots, log position, incidents, runs and outbox of one host."""

    def __init__(self, state: State) -> None:
        self._state = state

    def commit(self, commit: Commit) -> None:
        """All at once under the lock."""
        state = self._state
        with state.lock:
            for key, snapshot in commit.snapshots.items():
                if snapshot is None:
                    state.snapshots.pop(key, None)
                else:
                    state.snapshots[key] = snapshot
            incidents = MemoryIncidentStore(state)
            incidents.write_runs(commit.runs)
            incidents.write_incidents(commit.incidents)
            MemoryOutbox(state).add(commit.messages)
            state.position = commit.position

    def position(self) -> str | None:
        """Position of the last commit."""
        return self._state.position

    def snapshots(self) -> Iterable[tuple[str, str, bytes]]:
        """(stage, key, state) of everything kept."""
        with self._state.lock:
            return sorted((*key, snapshot) for key, snapshot in self._state.snapshots.items())


def _delivery_document(delivery: Delivery) -> search_fields.Document:
    values: dict[str, tuple[str | int, ...]] = {
        "destination": (delivery.destination,),
        "incident": (delivery.incident,),
        "message": (delivery.message,),
        "kind": (delivery.kind,),
        "delivered": ("true" if delivery.delivered else "false",),
    }
    return search_fields.Document(values=values)
