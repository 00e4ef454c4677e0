"""The fleet stage: the same failure over runs. Every revision of every incident passes here and leaves with group and history."""

from collections.abc import Sequence
from typing import Final

import msgspec

from firstfault_server.core import model
from firstfault_server.core.model import SECOND_NS
from firstfault_server.core.stages.codec import StateCodec
from firstfault_server.core.stages.protocol import FOREVER

_DAY_NS: Final = 24 * 3600 * SECOND_NS
_KEEP_NS: Final = 30 * _DAY_NS
_SEEN: Final = 2000
_RUNS: Final = 10


class Sighting(msgspec.Struct, array_like=True):
    """One incident as the group remembers it."""

    run: str
    node: str
    opened_ns: int
    recurrences: int = 0


class Group(msgspec.Struct):
    """Incidents with one fingerprint."""

    id: str
    first_ns: int
    sightings: dict[str, Sighting] = {}
    last_ns: int = 0


class FleetState(msgspec.Struct, omit_defaults=True):
    """One family of symptoms of one tenant."""

    groups: dict[str, Group] = {}
    where: dict[str, str] = {}
    """Incident -> group that counts it."""
    last_ns: int = 0


class Fleet:
    """Stage `fleet`."""

    name = "fleet"
    eager = True

    def __init__(self) -> None:
        codec = StateCodec(FleetState)
        self.encode, self.decode = codec.encode, codec.decode

    def key(self, record: model.Incident) -> str:
        """Tenant and family: groups are compared within it."""
        return f"{record.tenant}/{record.family}"

    def new(self, key: str) -> FleetState:
        """Nothing seen."""
        return FleetState()

    def urgent(self, record: model.Incident) -> bool:
        """Incidents wait for nobody."""
        return True

    def on_batch(self, state: FleetState, records: Sequence[model.Incident], now_ns: int) -> list[model.AnyRecord]:
        """Each revision, with the history of its group as of now."""
        return [self._pass(state, record, now_ns) for record in records]

    def on_tick(self, state: FleetState, now_ns: int) -> list[model.AnyRecord]:
        """Nothing happens by time alone."""
        return []

    def on_hole(self, state: FleetState, hole_ns: int, now_ns: int) -> None:
        """Nothing here is judged by silence."""

    def deadline(self, state: FleetState) -> int | None:
        """Groups are kept without a timer."""
        return FOREVER

    def _pass(self, state: FleetState, incident: model.Incident, now_ns: int) -> model.Incident:
        fingerprint = incident.fingerprint.id or incident.symptom
        state.last_ns = max(state.last_ns, incident.updated_at)
        self._leave(state, incident.id)
        if incident.resolved_why.startswith("withdrawn"):
            return incident
        group = state.groups.get(fingerprint)
        if group is None:
            group = state.groups[fingerprint] = Group(id=fingerprint, first_ns=incident.opened_at)
        group.first_ns = min(group.first_ns, incident.opened_at)
        group.last_ns = max(group.last_ns, incident.opened_at)
        node = incident.first_fault.node or ""
        group.sightings[incident.id] = Sighting(incident.run.id, node, incident.opened_at, incident.recurrences)
        state.where[incident.id] = fingerprint
        self._bound(state, group)
        incident.history = self._history(group, incident, node, state.last_ns)
        if incident.first_fault.status == "provisional":
            # It may yet turn out to be another failure, of another family: it sees the group, the group does not see it.
            self._leave(state, incident.id)
        return incident

    def _leave(self, state: FleetState, incident_id: str) -> None:
        """A verdict that changed, or was withdrawn, no longer counts where it counted."""
        group = state.groups.get(state.where.pop(incident_id, ""))
        if group is not None:
            group.sightings.pop(incident_id, None)
            if not group.sightings:
                del state.groups[group.id]

    def _history(self, group: Group, incident: model.Incident, node: str, now_ns: int) -> model.History:
        def count(window_ns: int) -> int:
            return sum(1 + one.recurrences for one in group.sightings.values() if one.opened_ns > now_ns - window_ns)

        others = sorted(
            {one.run for key, one in group.sightings.items() if key != incident.id},
            key=lambda run: (-max(one.opened_ns for one in group.sightings.values() if one.run == run), run),
        )
        return model.History(
            first_seen=group.first_ns,
            count_24h=count(_DAY_NS),
            count_7d=count(7 * _DAY_NS),
            runs=others[:_RUNS],
            same_node=sum(1 for key, one in group.sightings.items() if node and one.node == node and key != incident.id),
            group=group.id,
            why="same fingerprint" if len(group.sightings) > 1 or incident.recurrences else "",
        )

    def _bound(self, state: FleetState, group: Group) -> None:
        old = [key for key, one in group.sightings.items() if one.opened_ns < state.last_ns - _KEEP_NS]
        while len(group.sightings) - len(old) > _SEEN:
            old.append(min(group.sightings.keys() - set(old), key=lambda key: (group.sightings[key].opened_ns, key)))
        for key in old:
            del group.sightings[key]
            state.where.pop(key, None)
        while len(state.groups) > _SEEN:
            stale = min(state.groups.values(), key=lambda one: (one.last_ns, one.id))
            for key in stale.sightings:
                state.where.pop(key, None)
            del state.groups[stale.id]
