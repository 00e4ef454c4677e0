"""Keeps what a search sees of an incident in step with detection and people, who both change it.

Marks are the truth in the family `triage` alone. The document of an incident repeats what filters need of them; whoever writes it,
detection or people, reads both sides anew and writes by compare-and-set, so neither takes back what the other did.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from firstfault_server.adapters.elasticsearch.bulk import Action
from firstfault_server.adapters.elasticsearch.cluster import Cluster, Found, Refresh
from firstfault_server.adapters.elasticsearch.documents import document_id, unpack
from firstfault_server.adapters.elasticsearch.incident_documents import (
    Written,
    incident_source,
    marked_source,
    revision_id,
    revision_source,
)
from firstfault_server.adapters.elasticsearch.templates import INCIDENTS, REVISIONS, TRIAGE
from firstfault_server.core import model
from firstfault_server.core.revisions import superfluous

TRIES: Final = 20
"""Of a write that others keep coming before."""
Story = Sequence[Written]
"""Revisions of one incident in the order of writing."""


class _Step(msgspec.Struct, frozen=True):
    """How one incident's document is to change."""

    key: str
    stored: Found | None
    latest: Written
    fresh: dict[int, Written]
    kept: list[int]
    superfluous: list[int]


class Refusal(msgspec.Struct, frozen=True):
    """An incident that the index does not take, ever."""

    written: Written
    reason: str


class Merging:
    """Writes documents of incidents."""

    def __init__(self, cluster: Cluster, *, refresh: Refresh) -> None:
        self._cluster, self._refresh = cluster, refresh

    def marks(self, keys: Sequence[str]) -> dict[str, model.Triage]:
        """People's marks as they are now, by key, where there are some."""
        found = self._cluster.get(TRIAGE, keys, ["record"])
        return {key: unpack(each.source["record"], model.Triage) for key, each in found.items()}

    def write(self, stories: Mapping[str, Story]) -> list[Refusal]:
        """Bring incidents up to their highest revision; those that were refused."""
        refused: list[Refusal] = []
        waiting = dict(stories)
        for _ in range(TRIES):
            waiting = self._try(waiting, refused)
            if not waiting:
                return refused
        raise self._cluster.unavailable("cannot store incidents: others keep writing the same ones")

    def mark(self, triage: model.Triage) -> None:
        """Let searches see marks, if their incident is there."""
        key = document_id(triage.tenant, triage.incident)
        for _ in range(TRIES):
            stored = self._cluster.get(INCIDENTS, [key], ["record", "revisions", "marks"]).get(key)
            if stored is None or stored.source["marks"]["version"] >= triage.version:
                return
            # People look at once whether it worked.
            if self._cluster.put(INCIDENTS, key, marked_source(stored.source, triage), stored, refresh=True).done:
                return
        raise self._cluster.unavailable("cannot mark an incident: others keep writing it")

    def _try(self, stories: dict[str, Story], refused: list[Refusal]) -> dict[str, Story]:
        """Write once; those that met another writer."""
        known = self._cluster.get(INCIDENTS, list(stories), ["revision", "revisions"])
        steps = [step for key, story in stories.items() if (step := _step(key, story, known.get(key))) is not None]
        marks = self.marks([step.key for step in steps])
        # The timeline first: a document names only revisions that are there.
        self._cluster.write("revisions", [self._keep(step.key, written) for step in steps for written in step.fresh.values()])
        outcomes = self._cluster.write("incidents", [self._change(step, marks) for step in steps], refresh=self._refresh)
        conflicts: dict[str, Story] = {}
        done: list[_Step] = []
        for step, outcome in zip(steps, outcomes, strict=True):
            if outcome.conflict:
                conflicts[step.key] = stories[step.key]
            elif outcome.refused:
                refused.append(Refusal(step.latest, outcome.reason))
            else:
                done.append(step)
        drop = [revision_id(step.key, revision) for step in done for revision in step.superfluous]
        self._cluster.write("revisions", [Action(verb="delete", index=self._cluster.index(REVISIONS), id=each) for each in drop])
        self._mark_new([step.key for step in done if step.stored is None], marks)
        return conflicts

    def _keep(self, key: str, written: Written) -> Action:
        source = msgspec.json.encode(revision_source(key, written))
        name = revision_id(key, written.incident.revision)
        return Action(verb="index", index=self._cluster.index(REVISIONS), id=name, source=source)

    def _change(self, step: _Step, marks: Mapping[str, model.Triage]) -> Action:
        incident = step.latest.incident
        triage = marks.get(step.key) or model.Triage(tenant=incident.tenant, incident=incident.id)
        source = msgspec.json.encode(incident_source(step.latest, step.kept, triage))
        index = self._cluster.index(INCIDENTS)
        if step.stored is None:
            return Action(verb="create", index=index, id=step.key, source=source)
        return Action(verb="index", index=index, id=step.key, source=source, condition=step.stored.unchanged)

    def _mark_new(self, keys: Sequence[str], seen: Mapping[str, model.Triage]) -> None:
        """Who marked an incident before it was there has left it to us; look again whether somebody did just now."""
        for key, triage in self.marks(keys).items():
            if key not in seen or seen[key].version < triage.version:
                self.mark(triage)


def _step(key: str, story: Story, stored: Found | None) -> _Step | None:
    """None when the store knows better already."""
    current: int | None = None if stored is None else stored.source["revision"]
    kept: list[int] = [] if stored is None else stored.source["revisions"]
    fresh: dict[int, Written] = {}
    for written in story:
        if current is None or written.incident.revision >= current:
            current = written.incident.revision
            fresh[current] = written
    if current is None or not fresh:
        return None
    revisions = sorted({*kept, *fresh})
    gone = set(superfluous(revisions))
    return _Step(
        key=key,
        stored=stored,
        latest=fresh[current],
        fresh={revision: written for revision, written in fresh.items() if revision not in gone},
        kept=[revision for revision in revisions if revision not in gone],
        superfluous=[revision for revision in kept if revision in gone],
    )
