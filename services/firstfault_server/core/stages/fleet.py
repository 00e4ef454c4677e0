"""The fleet stage: the same failure over runs. Every revision of every incident passes here and leaves with group and history.

Which group an incident belongs to is decided once, when its verdict has settled, and kept with its reason as long as the verdict
says the same. An equal fingerprint joins first, then likeness to what stands for a group of the same symptom.
"""

from collections.abc import Sequence
from heapq import nsmallest
from typing import Final

import msgspec

from firstfault_server.core import model
from firstfault_server.core.grouping.fingerprint import joining_hashes, message_hash
from firstfault_server.core.grouping.groups import Failure, Groups, Join
from firstfault_server.core.grouping.groups import Group as Recognised
from firstfault_server.core.grouping.parse import parse_text
from firstfault_server.core.grouping.similarity import FrameTable, Trace, trace_of
from firstfault_server.core.model import SECOND_NS
from firstfault_server.core.stages.codec import StateCodec
from firstfault_server.core.stages.protocol import FOREVER

_DAY_NS: Final = 24 * 3600 * SECOND_NS
_KEEP_NS: Final = 30 * _DAY_NS
_SEEN: Final = 2000
_EVICTED: Final = 100
"""Groups let go when there are too many."""
_RUNS: Final = 10
_STACK: Final = 65_536
"""Characters of a stack that are read, from its end."""
_NO_TRACE: Final = Trace(type="", places=(), weights=(), words={})


class Sighting(msgspec.Struct, array_like=True):
    """One incident as the group remembers it. New fields come at the end (stages/codec.py)."""

    run: str
    node: str
    opened_ns: int
    recurrences: int = 0
    key: str = ""
    """What the verdict said when the group was decided: symptom and fingerprint."""
    why: str = ""
    """Why it is in this group; empty for the one that began it."""


class Group(msgspec.Struct):
    """Incidents of one bug."""

    id: str
    first_ns: int
    sightings: dict[str, Sighting] = {}
    last_ns: int = 0


class Kept(msgspec.Struct, omit_defaults=True):
    """One family of symptoms of one tenant, as it is stored."""

    groups: dict[str, Group] = {}
    where: dict[str, str] = {}
    """Incident -> group that counts it."""
    last_ns: int = 0
    known: list[Recognised] = []
    """By what further members of the groups are recognised."""


class FleetState:
    """One family of symptoms of one tenant, with the index of what is known, which is made when first needed."""

    def __init__(self, kept: Kept | None = None) -> None:
        self._kept = kept or Kept()
        self._index: Groups | None = None

    @property
    def kept(self) -> Kept:
        """What is to be stored."""
        if self._index is not None:
            self._kept.known = self._index.kept()
        return self._kept

    @property
    def groups(self) -> dict[str, Group]:
        """Groups by id."""
        return self._kept.groups

    @property
    def where(self) -> dict[str, str]:
        """Incident -> group that counts it."""
        return self._kept.where

    @property
    def index(self) -> Groups:
        """Finds the group of a failure."""
        if self._index is None:
            self._index = Groups(self._kept.known)
        return self._index

    @property
    def last_ns(self) -> int:
        """Latest time of any incident."""
        return self._kept.last_ns

    def reach(self, now_ns: int) -> None:
        """Time moves on, never back."""
        self._kept.last_ns = max(self._kept.last_ns, now_ns)

    def sighting(self, incident: str) -> Sighting | None:
        """What is remembered of an incident."""
        group = self.groups.get(self.where.get(incident, ""))
        return group.sightings.get(incident) if group is not None else None

    def leave(self, incident: str) -> None:
        """A verdict that changed, or was withdrawn, no longer counts where it counted."""
        group = self.groups.get(self.where.pop(incident, ""))
        if group is not None:
            group.sightings.pop(incident, None)
            if not group.sightings:
                self.drop(group)

    def drop(self, group: Group) -> None:
        """Forget a group with all that it counts."""
        for incident in group.sightings:
            self.where.pop(incident, None)
        del self.groups[group.id]
        self.index.forget(group.id)


class Fleet:
    """Stage `fleet`. Without a table of frames only equal fingerprints join."""

    name = "fleet"
    eager = True

    def __init__(self, frames: FrameTable | None = None, advice_marks: tuple[str, ...] = ()) -> None:
        self._frames = frames
        self._advice_marks = advice_marks
        self._codec = StateCodec(Kept)

    def encode(self, state: FleetState) -> bytes:
        """Versioned msgpack."""
        return self._codec.encode(state.kept)

    def decode(self, data: bytes) -> FleetState:
        """Raises as `StateCodec.decode`."""
        return FleetState(self._codec.decode(data))

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
        return [self._pass(state, record) for record in records]

    def on_tick(self, state: FleetState, now_ns: int) -> list[model.AnyRecord]:
        """Nothing happens by time alone."""
        return []

    def on_hole(self, state: FleetState, hole_ns: int, now_ns: int) -> None:
        """Nothing here is judged by silence."""

    def deadline(self, state: FleetState) -> int | None:
        """Groups are kept without a timer."""
        return FOREVER

    def _pass(self, state: FleetState, incident: model.Incident) -> model.Incident:
        state.reach(incident.updated_at)
        if incident.resolved_why.startswith("withdrawn"):
            state.leave(incident.id)
            return incident
        name = incident.fingerprint.id or incident.symptom
        mine = Sighting(
            run=incident.run.id,
            node=incident.first_fault.node or "",
            opened_ns=incident.opened_at,
            recurrences=incident.recurrences,
            key=f"{incident.symptom} {name}",
        )
        before = state.sighting(incident.id)
        if before is not None and before.key == mine.key:
            group_id, mine.why = state.where[incident.id], before.why
        else:
            state.leave(incident.id)
            failure = self._failure(incident, name)
            if incident.first_fault.status == "provisional":
                # It may yet turn out to be another failure, of another family: it sees the group, the group does not see it.
                found = state.index.find(failure)
                group_id, mine.why = (found.group, _why(found, incident)) if found is not None else (name, "")
                known = state.groups.get(group_id) if found is not None else None
                seen = known or Group(id=group_id, first_ns=incident.opened_at)
                peek = msgspec.structs.replace(seen, sightings={**seen.sightings, incident.id: mine})
                peek.first_ns = min(peek.first_ns, incident.opened_at)
                incident.history = _history(peek, incident, mine, state.last_ns)
                return incident
            joined = state.index.join(failure, name)
            group_id, mine.why = joined.group, _why(joined, incident)
        group = state.groups.get(group_id)
        if group is None:
            group = state.groups[group_id] = Group(id=group_id, first_ns=incident.opened_at)
        group.first_ns = min(group.first_ns, incident.opened_at)
        group.last_ns = max(group.last_ns, incident.opened_at)
        group.sightings[incident.id] = mine
        state.where[incident.id] = group_id
        _bound(state, group)
        incident.history = _history(group, incident, mine, state.last_ns)
        return incident

    def _failure(self, incident: model.Incident, name: str) -> Failure:
        """What of an incident is compared: its fingerprint, and type, message and frames of an exception."""
        exception = incident.first_fault.exception
        if exception is None or self._frames is None:
            return Failure(symptom=incident.symptom, hashes=(name,), message=name, trace=_NO_TRACE)
        crashes = parse_text(exception.stacktrace[-_STACK:]) if exception.stacktrace else []
        frames = crashes[-1].frames if crashes else ()
        return Failure(
            symptom=incident.symptom,
            hashes=tuple(dict.fromkeys((name, *joining_hashes(exception.type, frames)))),
            message=message_hash(exception.type, exception.message, self._advice_marks),
            trace=trace_of(self._frames, exception.type, exception.message, frames, self._advice_marks),
        )


def _why(join: Join, incident: model.Incident) -> str:
    if join.new:
        return ""
    if join.key and join.key == incident.fingerprint.id:
        return "same fingerprint"
    return "same symptom, no text to compare" if join.key == incident.symptom else join.why


def _history(group: Group, incident: model.Incident, mine: Sighting, now_ns: int) -> model.History:
    def count(window_ns: int) -> int:
        return sum(1 + one.recurrences for one in group.sightings.values() if one.opened_ns > now_ns - window_ns)

    newest: dict[str, int] = {}
    for key, one in group.sightings.items():
        if key != incident.id:
            newest[one.run] = max(newest.get(one.run, 0), one.opened_ns)
    return model.History(
        first_seen=group.first_ns,
        count_24h=count(_DAY_NS),
        count_7d=count(7 * _DAY_NS),
        runs=sorted(newest, key=lambda run: (-newest[run], run))[:_RUNS],
        same_node=sum(1 for key, one in group.sightings.items() if mine.node and one.node == mine.node and key != incident.id),
        group=group.id,
        why=mine.why or ("same fingerprint" if incident.recurrences else ""),
    )


def _bound(state: FleetState, group: Group) -> None:
    old = [key for key, one in group.sightings.items() if one.opened_ns < state.last_ns - _KEEP_NS]
    while len(group.sightings) - len(old) > _SEEN:
        old.append(min(group.sightings.keys() - set(old), key=lambda key: (group.sightings[key].opened_ns, key)))
    for key in old:
        del group.sightings[key]
        state.where.pop(key, None)
    if len(state.groups) > _SEEN:
        # Several at once: to find the oldest takes a look at all.
        for stale in nsmallest(_EVICTED, state.groups.values(), key=lambda one: (one.last_ns, one.id)):
            state.drop(stale)
