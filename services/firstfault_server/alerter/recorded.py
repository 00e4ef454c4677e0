"""Marks of people whose messages were not queued: the process that wrote them died, or could not reach the outbox, just then.

A mark and its audit entry commit together, so the audit trail has every mark. What the planner is handed twice it owes once.
"""

from collections.abc import Callable, Iterable
from typing import Final

from structlog.typing import FilteringBoundLogger

from firstfault_server import ports
from firstfault_server.alerter.polling import poll, tenants
from firstfault_server.core import model
from firstfault_server.telemetry import AlertMetrics

FIRST_NS: Final = 3600 * model.SECOND_NS
"""How far the first look goes back: an alerter that was away for longer has missed marks that nobody waits for any more."""
OVERLAP_NS: Final = 60 * model.SECOND_NS
"""Each look goes back so far behind the one before: entries become visible late."""
TOLD: Final = frozenset({"resolve", "reopen", "unmute"})
"""Actions that may be followed by a message."""


class RecordedMarks:
    """Looks for marks in the audit trail and hands their incidents to the planner."""

    def __init__(
        self,
        triage: ports.TriageStore,
        incidents: ports.IncidentStore,
        access: ports.AccessStore,
        clock: ports.Clock,
        changed: Callable[[model.Incident, model.Triage], None],
        metrics: AlertMetrics,
        log: FilteringBoundLogger,
    ) -> None:
        self._triage, self._incidents, self._access, self._clock = triage, incidents, access, clock
        self._changed, self._metrics, self._log = changed, metrics, log
        self._looked_ns: int | None = None

    async def run(self) -> None:
        """Look now and then, for ever. Ends by cancellation."""
        await poll(self.look, "marks cannot be looked for", self._metrics, self._log)

    def look(self) -> None:
        """Hand over every incident that was marked since the last look. Raises StoreUnavailable; then the next look makes up for it."""
        now_ns = self._clock.now_ns()
        since_ns = now_ns - FIRST_NS if self._looked_ns is None else self._looked_ns - OVERLAP_NS
        for tenant in tenants(self._access):
            for subject in dict.fromkeys(self._marked(tenant, since_ns)):
                self._hand_over(tenant, subject)
        self._looked_ns = now_ns

    def _marked(self, tenant: str, since_ns: int) -> Iterable[str]:
        entries = ports.walk(self._triage.audit, ports.ListQuery(tenant=tenant, since_ns=since_ns, limit=200))
        return (entry.subject for entry in entries if entry.action in TOLD)

    def _hand_over(self, tenant: str, incident_id: str) -> None:
        try:
            incident = self._incidents.incident(tenant, incident_id)
        except ports.NotFound:
            # Retention was faster.
            return
        self._changed(incident, self._triage.triage(tenant, incident_id))
