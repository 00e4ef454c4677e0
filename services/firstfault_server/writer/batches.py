"""Handles batches of topics: decodes, writes each kind to its store, and keeps what cannot be used as dead letters."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from structlog.typing import FilteringBoundLogger

from firstfault_server.core import model
from firstfault_server.ports import AggregateStore, Clock, ContextStore, IncidentStore
from firstfault_server.wire import outputs
from firstfault_server.wire.incoming import TopicRecord
from firstfault_server.wire.unreadable import Unreadable
from firstfault_server.writer import letters
from firstfault_server.writer.storing import store_each
from firstfault_server.writer.telemetry import WriterMetrics

DEAD_LETTER: Final = "dead_letter"
Keep: TypeAlias = Callable[[Sequence[model.DeadLetter]], None]
"""Makes dead letters durable. Raises StoreUnavailable."""


class Target(NamedTuple):
    """Where the records of a topic go."""

    kind: str
    write: Callable[[Sequence[Any]], None]


class _Content(NamedTuple):
    record: TopicRecord
    content: Any


def context_targets(context: ContextStore, incidents: IncidentStore) -> Mapping[str, Target]:
    """Topics of what people read, in the order of writing: an incident never names a run that is not there."""
    return {
        outputs.RUNS: Target("run", incidents.write_runs),
        outputs.EVENTS: Target("event", context.write_events),
        outputs.INCIDENTS: Target("incident", incidents.write_incidents),
        outputs.DEAD_LETTERS: Target(DEAD_LETTER, context.write_dead_letters),
    }


def aggregate_targets(aggregates: AggregateStore) -> Mapping[str, Target]:
    """Topics of numbers."""
    return {outputs.ROLLUPS: Target("rollup", aggregates.write_rollups)}


class BatchWriter:
    """Stores batches of some topics; a batch that comes again changes nothing."""

    def __init__(self, targets: Mapping[str, Target], keep: Keep, clock: Clock, metrics: WriterMetrics, log: FilteringBoundLogger) -> None:
        self._targets, self._keep, self._clock, self._metrics, self._log = targets, keep, clock, metrics, log

    def handle(self, records: Sequence[TopicRecord]) -> None:
        """Return when everything is durable, or kept as a dead letter. Raises StoreUnavailable; then the batch is to be given again."""
        lost: list[model.DeadLetter] = []
        contents: dict[str, list[_Content]] = {topic: [] for topic in self._targets}
        for record in records:
            try:
                contents[record.topic] += [_Content(record, content) for content in record.contents()]
            except Unreadable as error:
                lost.append(letters.unreadable(record, error))
                self._metrics.dead_letter("unreadable")
        for topic, target in self._targets.items():
            lost += self._store(target, contents[topic])
        if lost:
            self._log.error("records became dead letters", count=len(lost), reason=lost[0].reason)
            self._keep(lost)

    def _store(self, target: Target, found: Sequence[_Content]) -> list[model.DeadLetter]:
        if not found:
            return []
        refused = store_each(target.write, [content for _, content in found])
        self._metrics.dead_letter("refused", len(refused))
        self._metrics.stored(target.kind, len(found) - len(refused))
        self._measure(target.kind, found)
        if refused and target.kind == DEAD_LETTER:
            # A letter about a letter would come back here for ever.
            self._log.error("dead letters are lost: their store refuses them", count=len(refused), reason=str(refused[0].error))
            return []
        return [letters.refused(*found[place], error) for place, error in refused]

    def _measure(self, kind: str, found: Sequence[_Content]) -> None:
        now_ns = self._clock.now_ns()
        # One time a record of the topic: rollups travel by the hundred.
        written = {id(record): record.written_ns for record, _ in found}
        took = self._metrics.hops.took
        took("detected_to_stored", kind, (now_ns - written_ns for written_ns in written.values()))
        if kind == "event":
            took("receipt_to_detected", kind, (record.written_ns - event.received_ns for record, event in found))
            took("receipt_to_stored", kind, (now_ns - event.received_ns for _, event in found))
        elif kind == "incident":
            took("receipt_to_detected", kind, (record.written_ns - incident.updated_at for record, incident in found))
            # Later revisions follow from what was received later, which they do not tell.
            took("receipt_to_stored", kind, (now_ns - incident.opened_at for _, incident in found if incident.revision == 1))
