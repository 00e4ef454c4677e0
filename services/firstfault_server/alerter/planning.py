"""Plans messages for what just changed: joins incidents with marks, destinations and what the outbox holds already."""

import threading
from collections.abc import Callable, Iterable, Sequence

import msgspec
from structlog.typing import FilteringBoundLogger

from firstfault_server import ports
from firstfault_server.alerter.messages import next_message
from firstfault_server.core import model
from firstfault_server.core.query import QueryError, parse
from firstfault_server.core.search import Expression, Term
from firstfault_server.core.silencing import Rule, rules_of, silencing
from firstfault_server.telemetry import AlertMetrics


class _Receivers(msgspec.Struct, frozen=True, kw_only=True):
    """Who may hear of a tenant's incidents, and what must stay quiet."""

    destinations: list[ports.Destination]
    rules: list[Rule]


class Planner:
    """Reads stores, decides by the pure `next_message`, writes nothing: the host commits messages with their incidents."""

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
                planned += self._owed(incident, triage, receivers[tenant], planned)
        return planned

    def marked(self, incident: model.Incident, triage: model.Triage) -> list[ports.Message]:
        """Messages owed after a person changed an incident's marks."""
        return self._owed(incident, triage, self._receivers(incident.tenant), [])

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
    ) -> list[ports.Message]:
        told = self._outbox.messages(incident.tenant, incident.id)
        told += [message for message in planned if message.incident == incident.id and message.tenant == incident.tenant]
        now_ns = self._clock.now_ns()
        silences = silencing(receivers.rules, incident, triage, now_ns)
        owed: list[ports.Message] = []
        for destination in receivers.destinations:
            where = self._where(destination)
            message = next_message(incident, triage, destination, where, told, now_ns, self._base_url, silences)
            if message is not None:
                owed.append(message)
                self._metrics.messages.labels(message.kind).inc()
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

    def __init__(self, inner: ports.Checkpoint, planner: Planner, outbox: ports.Outbox, planned: Callable[[], None]) -> None:
        self._inner = inner
        self._planner = planner
        self._outbox = outbox
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
            owed = self._planner.marked(incident, triage)
            if owed:
                self._outbox.add(owed)
        if owed:
            self._planned()

    def position(self) -> str | None:
        """Position of the last commit."""
        return self._inner.position()

    def snapshots(self) -> Iterable[tuple[str, str, bytes]]:
        """(stage, key, state) of everything kept."""
        return self._inner.snapshots()
