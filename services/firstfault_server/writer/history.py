"""How long the past is kept: incidents that are over, runs, what people did, tries to deliver. What is open stays."""

from typing import Final, Protocol

import msgspec

from firstfault_server import ports
from firstfault_server.writer.retention import Kept

BATCH: Final = 200
"""Incidents or runs a transaction: others can write in between."""


class Days(Protocol):
    """How long each kind is kept."""

    retention_incidents_days: float
    retention_runs_days: float
    retention_audit_days: float
    retention_deliveries_days: float


class History(msgspec.Struct, frozen=True, kw_only=True):
    """The stores that grow with time."""

    incidents: ports.IncidentStore
    triage: ports.TriageStore
    silences: ports.SilenceStore
    outbox: ports.Outbox

    def kept(self, days: Days) -> list[Kept]:
        """The rules of retention, in the order in which they have to be applied."""
        return [
            Kept(name="incidents", prune=self._prune_incidents, days=days.retention_incidents_days),
            # After the incidents, since an incident keeps its run.
            Kept(name="runs", prune=self._prune_runs, days=days.retention_runs_days),
            Kept(name="audit", prune=self.triage.prune_audit, days=days.retention_audit_days),
            Kept(name="silences", prune=self.silences.prune_silences, days=days.retention_audit_days),
            Kept(name="deliveries", prune=self.outbox.prune_deliveries, days=days.retention_deliveries_days),
        ]

    def _prune_incidents(self, before_ns: int) -> int:
        gone = 0
        while True:
            dropped = self.incidents.prune_incidents(before_ns, BATCH)
            self.outbox.forget(dropped)
            gone += len(dropped)
            if len(dropped) < BATCH:
                return gone

    def _prune_runs(self, before_ns: int) -> int:
        gone = 0
        while True:
            dropped = self.incidents.prune_runs(before_ns, BATCH)
            gone += dropped
            if dropped < BATCH:
                return gone
