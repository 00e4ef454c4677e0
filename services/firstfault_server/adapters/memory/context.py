"""ContextStore in memory."""

from collections.abc import Sequence
from typing import Any

import msgspec

from firstfault_server.adapters.memory.state import State, copied, in_period, listed
from firstfault_server.core import fingerprints, model, search_fields
from firstfault_server.core.keyset import start_key
from firstfault_server.core.search import And
from firstfault_server.core.search_match import check, matches
from firstfault_server.ports import ListQuery, NotFound, Page


class MemoryContextStore:
    """Events in a dictionary."""

    def __init__(self, state: State) -> None:
        self._state = state

    def write_events(self, events: Sequence[model.Event]) -> None:
        """Insert; an id that is there already stays as it is."""
        with self._state.lock:
            for event in events:
                self._state.events.setdefault((event.identity.tenant, event.id), copied(event))

    def event(self, tenant: str, event_id: str) -> model.Event:
        """Raises NotFound."""
        with self._state.lock:
            event = self._state.events.get((tenant, event_id))
            if event is None:
                raise NotFound(f"no event {event_id!r}")
            return self._with_attempt(event)

    def events(self, query: ListQuery) -> Page[model.Event]:
        """Search keys: see `core.search_fields.EVENT`; free text over body and exception. Raises SearchError."""
        with self._state.lock:
            rows = [(event.time_ns, event.id, event) for event in self._of(query.tenant)]
            return listed(query, search_fields.EVENT, rows, lambda event: search_fields.event_document(event, event.attempt))

    def fingerprints(self, query: ListQuery) -> Page[dict[str, Any]]:
        """Per fingerprint, latest first: fingerprint, symptom, type, message, count, first_seen_ns, last_seen_ns, runs, nodes."""
        check(query.where, search_fields.EVENT)
        start = start_key(query.after)
        groups: dict[str, list[model.Event]] = {}
        with self._state.lock:
            for event in self._of(query.tenant):
                document = search_fields.event_document(event, event.attempt)
                if event.fingerprint and in_period(query, event.time_ns) and matches(query.where, document, search_fields.EVENT):
                    groups.setdefault(event.fingerprint, []).append(event)
        rows = sorted(((max(event.time_ns for event in events), name) for name, events in groups.items()), reverse=True)
        rows = [row for row in rows if start is None or row < start]
        kept = rows[: query.limit]
        return Page(items=[_summary(groups[name]) for _, name in kept], next_key=[*kept[-1]] if len(rows) > query.limit else None)

    def write_dead_letters(self, letters: Sequence[model.DeadLetter]) -> None:
        """Keep what could not be used."""
        with self._state.lock:
            for letter in letters:
                self._state.dead_letters.setdefault((letter.tenant, letter.id), copied(letter))

    def dead_letter(self, tenant: str, letter_id: str) -> model.DeadLetter:
        """Raises NotFound."""
        with self._state.lock:
            letter = self._state.dead_letters.get((tenant, letter_id))
            if letter is None:
                raise NotFound(f"no dead letter {letter_id!r}")
            return copied(letter)

    def dead_letters(self, query: ListQuery) -> Page[model.DeadLetter]:
        """By time of receipt, newest first."""
        with self._state.lock:
            rows = [
                (letter.received_ns, letter.id, copied(letter))
                for letter in self._state.dead_letters.values()
                if letter.tenant == query.tenant
            ]
        return listed(msgspec.structs.replace(query, where=And()), {}, rows, lambda _: search_fields.Document())

    def prune(self, before_ns: int) -> int:
        """Drop what was received earlier; returns how many events went."""
        state = self._state
        with state.lock:
            old = [key for key, event in state.events.items() if event.received_ns < before_ns]
            for key in old:
                del state.events[key]
            state.dead_letters = {key: letter for key, letter in state.dead_letters.items() if letter.received_ns >= before_ns}
        return len(old)

    def extents(self) -> list[tuple[int, int]]:
        """(end, 0) of each event, oldest first: memory is not measured."""
        with self._state.lock:
            return sorted((event.received_ns + 1, 0) for event in self._state.events.values())

    def _of(self, tenant: str) -> list[model.Event]:
        return [self._with_attempt(event) for event in self._state.events.values() if event.identity.tenant == tenant]

    def _with_attempt(self, event: model.Event) -> model.Event:
        run = self._state.runs.get((event.identity.tenant, event.identity.run))
        answer = copied(event)
        if answer.attempt is None:
            answer.attempt = search_fields.attempt_at(run, event.time_ns)
        return answer


def _summary(events: list[model.Event]) -> dict[str, Any]:
    """One item of `fingerprints`."""
    events = sorted(events, key=lambda event: (event.time_ns, event.id), reverse=True)
    places = [(event.identity.run, event.identity.node) for event in events[: fingerprints.LATEST]]
    return fingerprints.summary(events[0], len(events), events[-1].time_ns, events[0].time_ns, places)
