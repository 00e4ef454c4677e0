"""Plans messages for incidents as their topic brings them."""

from collections.abc import Callable, Sequence

from structlog.typing import FilteringBoundLogger

from firstfault_server.alerter.planning import Planner
from firstfault_server.core import model
from firstfault_server.ports import StoreUnavailable
from firstfault_server.telemetry import AlertMetrics
from firstfault_server.wire.incoming import TopicRecord
from firstfault_server.wire.unreadable import Unreadable


class IncidentPlanning:
    """Handles batches of the topic of incidents; one that comes again changes nothing."""

    def __init__(self, planner: Planner, planned: Callable[[], None], metrics: AlertMetrics, log: FilteringBoundLogger) -> None:
        """`planned` is called when messages were put into the outbox."""
        self._planner, self._planned, self._metrics, self._log = planner, planned, metrics, log

    def handle(self, records: Sequence[TopicRecord]) -> None:
        """Return when what is owed lies in the outbox. Raises StoreUnavailable; then the batch is to be given again."""
        revisions: dict[tuple[str, str], list[model.Incident]] = {}
        for record in records:
            for incident in self._contents(record):
                revisions.setdefault((incident.tenant, incident.id), []).append(incident)
        for own in revisions.values():
            if self._queued(own):
                self._planned()

    def _contents(self, record: TopicRecord) -> list[model.Incident]:
        try:
            return record.contents()
        except Unreadable as error:
            # The writer keeps it as a dead letter.
            self._failed("an incident cannot be read, and nobody is told of it", error)
            return []

    def _queued(self, revisions: Sequence[model.Incident]) -> bool:
        try:
            return self._planner.queue(revisions)
        except StoreUnavailable:
            raise
        except Exception as error:
            # One incident that cannot be told must not keep all others from being told.
            self._failed(f"messages about incident {revisions[0].id} cannot be planned", error)
            return False

    def _failed(self, what: str, error: Exception) -> None:
        self._metrics.errors.labels(type(error).__name__).inc()
        self._log.error(what, reason=str(error), exc_info=error)
