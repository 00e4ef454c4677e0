"""Plans messages for incidents as their topic brings them."""

from collections.abc import Callable, Sequence

from structlog.typing import FilteringBoundLogger

from firstfault_server.alerter.planning import Planner
from firstfault_server.core import model
from firstfault_server.wire.incoming import TopicRecord
from firstfault_server.wire.unreadable import Unreadable


class IncidentPlanning:
    """Handles batches of the topic of incidents; one that comes again changes nothing."""

    def __init__(self, planner: Planner, planned: Callable[[], None], log: FilteringBoundLogger) -> None:
        """`planned` is called when messages were put into the outbox."""
        self._planner, self._planned, self._log = planner, planned, log

    def handle(self, records: Sequence[TopicRecord]) -> None:
        """Return when what is owed lies in the outbox. Raises StoreUnavailable; then the batch is to be given again."""
        incidents: list[model.Incident] = []
        for record in records:
            try:
                incidents += record.contents()
            except Unreadable as error:
                # The writer keeps and counts it as a dead letter.
                self._log.error("an incident cannot be read, and nobody is told of it", reason=str(error))
        if self._planner.queue(incidents):
            self._planned()
