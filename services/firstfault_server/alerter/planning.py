"""Plans messages for what just changed: joins incidents with marks, destinations and what the outbox holds already."""

import threading
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final

import msgspec
from structlog.typing import FilteringBoundLogger

from firstfault_server import ports
from firstfault_server.alerter.messages import is_outdated, next_message
from firstfault_server.core import model
from firstfault_server.core.query import QueryError, parse
from firstfault_server.core.search import Expression, Term
from firstfault_server.core.silencing import Rule, rules_of, silencing
from firstfault_server.telemetry import AlertMetrics

TRIES: Final = 5
"""How often a message is planned again because somebody else took its number."""


class _Receivers(msgspec.Struct, frozen=True, kw_only=True):
    """Who may hear of a tenant's incidents, and what must stay quiet."""

    destinations: list[ports.Destination]
    rules: list[Rule]


class Planner:
    """Reads stores and decides by the pure `next_message`. `plan` writes nothing: its host commits messages with their incidents."""

    def __init__(
        self,
        outbox: ports.Outbox,
        access: ports.AccessStore,
        triage: ports.TriageStore,
        silences: ports.SilenceStore,
        clock: ports.Clock,
        metrics: AlertMetrics,
        log: FilteringBoundLogger,
        base_url: str,
    ) -> None:
        self._outbox = outbox
        self._access = access
        self._triage = triage
        self._silences = silences
        self._clock = clock
        self._metrics = metrics
        self._log = log
        self._base_url = base_url

    def plan(self, incidents: Sequence[model.Incident]) -> list[ports.Message]:
        """Messages owed for these revisions, in order; several revisions of one incident count one after the other."""
        planned: list[ports.Message] = []
        receivers: dict[str, _Receivers] = {}
        for incident in incidents:
            tenant = incident.tenant
            if tenant not in receivers:
                receivers[tenant] = self._receivers(tenant)
            if receivers[tenant].destinations:
                triage = self._triage.triage(tenant, incident.id)
                planned += self._owed(incident, triage, receivers[tenant], planned, again=True)
        return planned

    def queue(self, incidents: Sequence[model.Incident]) -> bool:
        """Put messages owed for these revisions into the outbox; whether there were any. Revisions that come again change nothing.

        Raises StoreUnavailable; then all of them are to be given again.
        """
        revisions: dict[tuple[str, str], list[model.Incident]] = {}
        for incident in incidents:
            revisions.setdefault((incident.tenant, incident.id), []).append(incident)
        # Every incident is tried, whether or not one before it owed something.
        return any([self._queued(partial(self.plan, own)) for own in revisions.values()])

    def queue_marked(self, incident: model.Incident, triage: model.Triage) -> bool:
        """Put messages owed after a person changed an incident's marks into the outbox; whether there were any."""
        marks = [triage]

        def plan() -> list[ports.Message]:
            now = marks.pop() if marks else self._triage.triage(incident.tenant, incident.id)
            return self._owed(incident, now, self._receivers(incident.tenant), [])

        return self._queued(plan)

    def _queued(self, plan: Callable[[], list[ports.Message]]) -> bool:
        """Two who plan at the same time give the same number to different messages; one of them is stored, and the other plans again."""
        for _ in range(TRIES):
            owed = plan()
            if not owed:
                return False
            self._outbox.add(owed)
            stored = {message.id: message.body for message in self._outbox.messages(owed[0].tenant, owed[0].incident)}
            if all(stored.get(message.id, message.body) == message.body for message in owed):
                return True
            self._metrics.conflicts.inc()
        raise ports.StoreUnavailable(f"messages about incident {owed[0].incident} are planned by too many at once")

    def _receivers(self, tenant: str) -> _Receivers:
        destinations = self._access.destinations(tenant)
        silences = self._silences.ending_after(tenant, self._clock.now_ns()) if destinations else []
        rules, broken = rules_of(silences)
        for silence, error in broken:
            # It parsed when it was stored; a page too many is better than none.
            self._log.error("the search of a silence does not parse", silence=silence.id, reason=str(error))
        return _Receivers(destinations=destinations, rules=rules)

    def _owed(
        self,
        incident: model.Incident,
        triage: model.Triage,
        receivers: _Receivers,
        planned: Sequence[ports.Message],
        *,
        again: bool = False,
    ) -> list[ports.Message]:
        """`again`: the revision may have been planned for before, as records of topics are read again after a crash."""
        told = self._outbox.messages(incident.tenant, incident.id)
        told += [message for message in planned if message.incident == incident.id and message.tenant == incident.tenant]
        now_ns = self._clock.now_ns()
        silences = silencing(receivers.rules, incident, triage, now_ns)
        owed: list[ports.Message] = []
        for destination in receivers.destinations:
            if again and is_outdated(incident, [message for message in told if message.destination == destination.id]):
                continue
            where = self._where(destination)
            message = next_message(incident, triage, destination, where, told, now_ns, self._base_url, silences)
            if message is not None:
                owed.append(message)
                self._metrics.messages.labels(message.kind).inc()
                if again:
                    self._metrics.hops.took("settled_to_planned", message.kind, [now_ns - incident.updated_at])
        return owed

    def _where(self, destination: ports.Destination) -> Expression:
        try:
            return parse(destination.where)
        except QueryError as error:
            # It parsed when it was stored; a page too many is better than none.
            self._log.error("the search of a destination does not parse", destination=destination.name, reason=str(error))
            return Term(key="is", value="page")


class AlertingCheckpoint:
    """A checkpoint that adds the messages owed to every commit, so that a page is durable exactly when its incident is.

    Planning and writing happen under one lock, shared with people's changes: two writers would number the same message twice.
    """

    def __init__(self, inner: ports.Checkpoint, planner: Planner, planned: Callable[[], None]) -> None:
        self._inner = inner
        self._planner = planner
        self._planned = planned
        self._lock = threading.Lock()

    def commit(self, commit: ports.Commit) -> None:
        """All or nothing, with messages. Raises StorageFull, StoreUnavailable."""
        with self._lock:
            owed = self._planner.plan(commit.incidents) if commit.incidents else []
            self._inner.commit(msgspec.structs.replace(commit, messages=[*commit.messages, *owed]) if owed else commit)
        if owed:
            self._planned()

    def triage_changed(self, incident: model.Incident, triage: model.Triage) -> None:
        """Queue what follows from a person's change."""
        with self._lock:
            queued = self._planner.queue_marked(incident, triage)
        if queued:
            self._planned()

    def position(self) -> str | None:
        """Position of the last commit."""
        return self._inner.position()

    def snapshots(self) -> Iterable[tuple[str, str, bytes]]:
        """(stage, key, state) of everything kept."""
        return self._inner.snapshots()
