"""Mutes and silences end by time, which no record announces: what was not told because of one is told then."""

from collections.abc import Callable, Iterator
from typing import Final

from structlog.typing import FilteringBoundLogger

from firstfault_server import ports
from firstfault_server.alerter.polling import poll, tenants
from firstfault_server.core import model
from firstfault_server.core.search import And, Expression, Not, Term
from firstfault_server.core.selection import selects
from firstfault_server.core.silencing import Rule, rules_of
from firstfault_server.telemetry import AlertMetrics

OVERLAP_NS: Final = 60 * model.SECOND_NS
"""Each look goes back so far behind the one before: an end that was being written then is found now."""
OPEN_UNMUTED: Final[Expression] = And(
    parts=(Term(key="is", value="page"), Not(part=Term(key="is", value="muted")), Not(part=Term(key="is", value="resolved")))
)
MAX_READ: Final = 2000
"""Open incidents of one tenant that are looked at, newest first."""


class EndOfMutes:
    """Looks for mutes and silences that have ended and hands their incidents to the planner, which adds no message twice."""

    def __init__(
        self,
        incidents: ports.IncidentStore,
        silences: ports.SilenceStore,
        access: ports.AccessStore,
        clock: ports.Clock,
        changed: Callable[[model.Incident, model.Triage], None],
        metrics: AlertMetrics,
        log: FilteringBoundLogger,
    ) -> None:
        self._incidents = incidents
        self._silences = silences
        self._access = access
        self._clock = clock
        self._changed = changed
        self._metrics = metrics
        self._log = log
        self._looked_ns = 0

    async def run(self) -> None:
        """Look now and then, for ever. Ends by cancellation."""
        await poll(self.look, "ended mutes and silences cannot be looked for", self._metrics, self._log)

    def look(self) -> None:
        """Hand over every incident whose mute or silence has ended since the last look; at the first look, all of them."""
        now_ns = self._clock.now_ns()
        since_ns = max(self._looked_ns - OVERLAP_NS, 0)
        for tenant in tenants(self._access):
            ended = self._ended_silences(tenant, since_ns, now_ns)
            for incident, triage in self._open(tenant, now_ns):
                until_ns = triage.muted_until_ns
                unmuted = until_ns is not None and since_ns <= until_ns <= now_ns
                if unmuted or any(selects(rule.where, incident, triage, now_ns) for rule in ended):
                    self._changed(incident, triage)
        self._looked_ns = now_ns

    def _ended_silences(self, tenant: str, since_ns: int, now_ns: int) -> list[Rule]:
        # A search that does not parse kept nothing quiet.
        rules, _ = rules_of(self._silences.ending_after(tenant, since_ns - 1))
        return [rule for rule in rules if rule.silence.ends_ns <= now_ns]

    def _open(self, tenant: str, now_ns: int) -> Iterator[tuple[model.Incident, model.Triage]]:
        query = ports.ListQuery(tenant=tenant, where=OPEN_UNMUTED, limit=200)
        return ports.walk(lambda query: self._incidents.incidents(query, now_ns), query, MAX_READ)
