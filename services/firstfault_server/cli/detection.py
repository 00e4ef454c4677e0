"""Detection in this process: thresholds, tables, stages, the host that drives them, and the pruning of what is old."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from prometheus_client import CollectorRegistry
from structlog.typing import FilteringBoundLogger

from firstfault_server import ports
from firstfault_server.adapters.filelog import FileLog
from firstfault_server.adapters.sqlite import SqliteStores
from firstfault_server.cli.late_aggregates import LateAggregates, MeasuredAggregates
from firstfault_server.core.stages import build_stages
from firstfault_server.core.thresholds import Thresholds, overridden
from firstfault_server.detect.embedded import EmbeddedHost
from firstfault_server.detect.telemetry import DetectMetrics
from firstfault_server.settings import Settings, SettingsError
from firstfault_server.tables import load_tables
from firstfault_server.writer.history import History
from firstfault_server.writer.retention import Retention, RetentionMetrics
from firstfault_server.writer.rules import retention_rules


def thresholds(settings: Settings) -> Thresholds:
    """Defaults with the overrides of the settings. Raises SettingsError for a name or value that cannot be."""
    try:
        return overridden(settings.thresholds)
    except ValueError as error:
        raise SettingsError(f"settings: thresholds: {error}") from error


def open_aggregates(folder: Path, log: FilteringBoundLogger) -> LateAggregates:
    """The store of rollups, an engine in this process that is started in the background."""

    def opening() -> MeasuredAggregates:
        from firstfault_server.adapters.clickhouse import ClickHouseAggregateStore, embedded_engine

        return ClickHouseAggregateStore(embedded_engine(folder / "clickhouse"))

    return LateAggregates(opening, log)


@dataclass(frozen=True, kw_only=True)
class Detection:
    """The host and what belongs to it."""

    host: EmbeddedHost
    aggregates: LateAggregates
    retention: Retention
    settings: Settings
    log: FilteringBoundLogger

    def problems(self) -> Mapping[str, str]:
        """What is not ready, by part."""
        found = {"detection": self.host.problem or "", "metrics": self.aggregates.problem}
        return {part: problem for part, problem in found.items() if problem}

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Detect for the length of the block; at its end what was read is worked off and committed."""
        await asyncio.to_thread(self.host.start)
        pruning = asyncio.create_task(self.retention.run(), name="prune")
        try:
            yield
        finally:
            pruning.cancel()
            with suppress(asyncio.CancelledError):
                await pruning
            if not await asyncio.to_thread(self.host.stop, self.settings.drain_s):
                self.log.warning("detection did not end in time; it goes on from its last commit after the next start")


def build_detection(
    settings: Settings,
    log: FilteringBoundLogger,
    input_log: FileLog,
    checkpoint: ports.Checkpoint,
    stores: SqliteStores,
    aggregates: LateAggregates,
    clock: ports.Clock,
    registry: CollectorRegistry,
) -> Detection:
    """Everything built, nothing started. Raises SettingsError."""
    tables = load_tables()
    host = EmbeddedHost(
        stages=build_stages(
            thresholds(settings),
            tables.taxonomy,
            tables.text_reader(),
            tables.advice,
            codes=tables.codes,
            frames=tables.frames,
            advice_marks=tables.patterns.advice_marks,
        ),
        log=input_log,
        checkpoint=checkpoint,
        aggregates=aggregates,
        context=stores.context,
        metrics=DetectMetrics(registry),
        trim=lambda position: input_log.keep(settings.log_bytes, position),
    )
    history = History(incidents=stores.incidents, triage=stores.triage, silences=stores.silences, outbox=stores.outbox)
    kept = retention_rules(settings, history, stores.context, aggregates)
    retention = Retention(kept, clock, RetentionMetrics(registry), log)
    return Detection(host=host, aggregates=aggregates, retention=retention, settings=settings, log=log)
