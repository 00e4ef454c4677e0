"""AccessStore in memory."""

from firstfault_server.adapters.memory.state import State, copied
from firstfault_server.ports import AccessKey, Audit, Destination, NotFound


class MemoryAccessStore:
    """Keys and destinations, replaced whole."""

    def __init__(self, state: State) -> None:
        self._state = state

    def put_key(self, key: AccessKey, audit: Audit | None = None) -> None:
        """Insert or replace by id."""
        with self._state.lock:
            self._state.keys[key.id] = copied(key)
            self._record(audit)

    def keys(self, tenant: str | None = None) -> list[AccessKey]:
        """All keys, or one tenant's, oldest first."""
        with self._state.lock:
            chosen = [copied(key) for key in self._state.keys.values() if tenant is None or key.tenant == tenant]
        return sorted(chosen, key=lambda key: (key.created_ns, key.id))

    def key_by_hash(self, secret_hash: str) -> AccessKey | None:
        """The key of a secret, revoked ones included."""
        with self._state.lock:
            return next((copied(key) for key in self._state.keys.values() if key.secret_hash == secret_hash), None)

    def put_destination(self, destination: Destination, audit: Audit | None = None) -> None:
        """Insert or replace by id."""
        with self._state.lock:
            self._state.destinations[destination.tenant, destination.id] = copied(destination)
            self._record(audit)

    def destinations(self, tenant: str) -> list[Destination]:
        """One tenant's destinations, oldest first."""
        with self._state.lock:
            own = [copied(destination) for destination in self._state.destinations.values() if destination.tenant == tenant]
        return sorted(own, key=lambda destination: (destination.created_ns, destination.id))

    def destination(self, tenant: str, destination_id: str) -> Destination:
        """Raises NotFound."""
        with self._state.lock:
            stored = self._state.destinations.get((tenant, destination_id))
        if stored is None:
            raise NotFound(f"no destination {destination_id!r}")
        return copied(stored)

    def remove_destination(self, tenant: str, destination_id: str, audit: Audit | None = None) -> None:
        """Raises NotFound."""
        with self._state.lock:
            if self._state.destinations.pop((tenant, destination_id), None) is None:
                raise NotFound(f"no destination {destination_id!r}")
            self._record(audit)

    def _record(self, audit: Audit | None) -> None:
        if audit is not None:
            self._state.audit[audit.tenant, audit.id] = copied(audit)
