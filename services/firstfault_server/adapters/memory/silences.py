"""SilenceStore in memory."""

from firstfault_server.adapters.memory.state import State, copied, listed
from firstfault_server.core import model, search_fields
from firstfault_server.core.silencing import state_at
from firstfault_server.ports import MAX_SILENCES, Audit, ListQuery, NotFound, Page, VersionConflict


class MemorySilenceStore:
    """Silences by tenant and id."""

    def __init__(self, state: State) -> None:
        self._state = state

    def silence(self, tenant: str, silence_id: str) -> model.Silence:
        """Raises NotFound."""
        with self._state.lock:
            stored = self._state.silences.get((tenant, silence_id))
        if stored is None:
            raise NotFound(f"no silence {silence_id!r}")
        return copied(stored)

    def put_silence(self, silence: model.Silence, audit: Audit) -> model.Silence:
        """Write version+1 if the stored version (0: none) equals `silence.version`; else VersionConflict."""
        with self._state.lock:
            stored = self._state.silences.get((silence.tenant, silence.id))
            version = 0 if stored is None else stored.version
            if version != silence.version:
                raise VersionConflict(f"silence {silence.id!r} is at version {version}, not {silence.version}")
            written = copied(silence)
            written.version += 1
            self._state.silences[silence.tenant, silence.id] = written
            self._state.audit[audit.tenant, audit.id] = copied(audit)
            return copied(written)

    def silences(self, query: ListQuery, now_ns: int) -> Page[model.Silence]:
        """Newest first by creation. Search keys: see `core.search_fields.SILENCE`. Raises SearchError."""

        def document(silence: model.Silence) -> search_fields.Document:
            return search_fields.Document(values={"is": (state_at(silence, now_ns),), "author": (silence.author,)})

        with self._state.lock:
            own = [copied(silence) for silence in self._state.silences.values() if silence.tenant == query.tenant]
        return listed(query, search_fields.SILENCE, [(silence.created_ns, silence.id, silence) for silence in own], document)

    def ending_after(self, tenant: str, time_ns: int) -> list[model.Silence]:
        """Those that end later than a time, oldest first; of very many those that end last."""
        with self._state.lock:
            own = [copied(one) for one in self._state.silences.values() if one.tenant == tenant and one.ends_ns > time_ns]
        kept = sorted(own, key=lambda silence: (silence.ends_ns, silence.id))[-MAX_SILENCES:]
        return sorted(kept, key=lambda silence: (silence.created_ns, silence.id))

    def prune_silences(self, before_ns: int) -> int:
        """Drop those that ended earlier; returns how many went."""
        with self._state.lock:
            gone = [key for key, silence in self._state.silences.items() if silence.ends_ns < before_ns]
            for key in gone:
                del self._state.silences[key]
        return len(gone)
