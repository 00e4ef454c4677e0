"""The host in one process: reads the log, drives the stages, writes what they say, commits state and position together."""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from firstfault_server.core import model
from firstfault_server.core.model import SECOND_NS
from firstfault_server.core.stages.protocol import Stage
from firstfault_server.detect.keyed import KeyedStages, Output
from firstfault_server.detect.rollup_writer import HOST, MOST_ROWS, RollupWriter
from firstfault_server.detect.rules import dead_letter, tenant_of
from firstfault_server.detect.telemetry import DetectMetrics
from firstfault_server.ports import AggregateStore, Checkpoint, Commit, ContextStore, Log, LogEntry, StoreUnavailable
from firstfault_server.wire.identity import Identities
from firstfault_server.wire.otlp import Unreadable, decode

READ_BYTES: Final = 1 << 20
COMMIT_S: Final = 0.25
"""Between commits while something waits to be seen: events, incidents, runs."""
IDLE_COMMIT_S: Final = 1.0
"""Between commits when only numbers and states changed."""
STILL_COMMIT_S: Final = 30.0
"""Between commits when nothing but time went on."""
SHARE: Final = 0.1
"""Part of the time that commits may take; slow ones come less often, but never less than every `IDLE_COMMIT_S` × 4."""
TRIM_S: Final = 60.0
DRAIN_S: Final = 4.0
"""At a stop, what arrived last is worked off for this long; the rest is read after the next start."""
FIRST_RETRY_S, LAST_RETRY_S = 0.1, 5.0
CLOCK_KEY: Final = (HOST, "clock")
PATIENCE_S: Final = 0.1
"""How long a commit waits for its rollups before it keeps them itself; an urgent one does not wait."""
LAST_PATIENCE_S: Final = 2.0

_logger = logging.getLogger(__name__)
RecordT = TypeVar("RecordT")


class _Interrupted(Exception):
    """The service stops while a store is down."""


class EmbeddedHost:
    """Detection in a thread of its own. `problem` tells why it stands still, if it does."""

    def __init__(
        self,
        *,
        stages: Mapping[str, Stage[Any]],
        log: Log,
        checkpoint: Checkpoint,
        aggregates: AggregateStore,
        context: ContextStore,
        metrics: DetectMetrics,
        trim: Callable[[str], None] | None = None,
        commit_s: float = COMMIT_S,
        patience_s: float = PATIENCE_S,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`trim` is called now and then with the committed position, to shorten the log (default: `log.prune`)."""
        self._log, self._checkpoint, self._context = log, checkpoint, context
        self._rollups, self._patience_s = RollupWriter(aggregates.write_rollups, metrics.retries.inc), patience_s
        self._metrics, self._monotonic, self._commit_s = metrics, monotonic, commit_s
        self._trim = trim or log.prune
        self._stage_names = list(stages)
        self._stages = KeyedStages(stages)
        self._identities = Identities()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="detect", daemon=True)
        self._problem: str | None = "detection has not started"
        self._restored = False
        self._position: str | None = None
        self._committed: str | None = None
        self._last_commit = self._last_trim = monotonic()
        self._last_cost = 0.0

    # ---- life ------------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Take up the last commit and run in the background. Raises SnapshotUnreadable, StoreUnavailable."""
        self.restore()
        self._thread.start()

    def stop(self, timeout_s: float = 10.0) -> bool:
        """Finish what was read, commit, and end; False when it did not end in time."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join(timeout_s)
        self._rollups.stop()
        return not self._thread.is_alive()

    def restore(self) -> None:
        """Load snapshots and position of the last commit."""
        self._position = self._committed = self._checkpoint.position()
        snapshots = list(self._checkpoint.snapshots())
        clock = next((data for stage, key, data in snapshots if (stage, key) == CLOCK_KEY), b"0")
        self._stages.restore((s for s in snapshots if s[0] != HOST), int(clock))
        self._rollups.restore((key, data) for stage, key, data in snapshots if stage == HOST)
        self._restored = True
        self._problem = None

    @property
    def problem(self) -> str | None:
        """Why detection stands still or its numbers are not stored, None when all is well."""
        if self._problem is None and self._thread.ident is not None and not self._thread.is_alive() and not self._stopping.is_set():
            return "detection has ended unexpectedly"
        return self._problem or self._rollups.problem

    @property
    def reached_ns(self) -> int:
        """Receive time that detection has reached."""
        return self._stages.now_ns

    @property
    def position(self) -> str | None:
        """Position of the last commit."""
        return self._committed

    # ---- loop ------------------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                if not self.step():
                    self._log.wait(self._position, self._commit_s)
            give_up = self._monotonic() + DRAIN_S
            while self._monotonic() < give_up and self.step():
                pass
            self.commit()
        except Exception as error:
            self._problem = f"detection failed: {error}"
            _logger.critical("detection failed and has stopped", exc_info=error)

    def step(self) -> int:
        """Read and work off one stretch of the log, commit when it is time; how many entries there were."""
        try:
            entries = self._log.read(self._position, READ_BYTES)
        except (OSError, StoreUnavailable) as error:
            self._stand_still(f"the log cannot be read: {error}", FIRST_RETRY_S)
            return 0
        for position, entry in entries:
            self._take(position, entry)
            self._position = position
            if self._stages.urgent:
                self._commit_if_due()
        self._commit_if_due()
        return len(entries)

    def _take(self, position: str, entry: LogEntry) -> None:
        stages, metrics = self._stages, self._metrics
        metrics.read(entry.signal)
        stages.advance(entry.received_ns)
        if entry.signal == "clock":
            return
        try:
            batches = decode(entry, position, self._identities)
        except Unreadable as error:
            self._bury(position, entry, str(error))
            return
        except Exception as error:
            _logger.error("decoding failed at %s", position, exc_info=error)
            self._bury(position, entry, f"decoding failed: {type(error).__name__}: {error}")
            return
        for batch in batches:
            if batch.series:
                metrics.points.inc(sum([len(series.values) for series in batch.series]))
                if clamped := sum([series.clamped for series in batch.series]):
                    metrics.clamped.inc(clamped)
            if batch.logs:
                metrics.records.inc(len(batch.logs))
            stages.give("worker", batch, entry.received_ns)

    def _bury(self, position: str, entry: LogEntry, reason: str) -> None:
        letter = dead_letter(entry.tenant, entry.received_ns, reason, entry.signal, entry.body, position)
        self._stages.output.dead_letters.append(letter)

    # ---- commit ----------------------------------------------------------------------------------------------------------

    def _commit_if_due(self) -> None:
        stages, out = self._stages, self._stages.output
        if self._position == self._committed:
            return
        pause = 0.0
        if not stages.urgent:
            if out.events or out.runs or out.dead_letters:
                pause = self._commit_s
            elif stages.changed:
                pause = max(IDLE_COMMIT_S, self._commit_s)
            else:
                pause = STILL_COMMIT_S
        pause = max(pause, min(self._last_cost / SHARE, 4 * IDLE_COMMIT_S))
        if self._monotonic() >= self._last_commit + pause:
            self.commit()

    def commit(self) -> None:
        """Write outputs (each can be written twice), then state, position, incidents and runs in one transaction.

        Waits for stores that are down; when the service is stopping meanwhile, nothing is committed, and the next start reads it again.
        """
        if self._position is None:
            return
        start = self._monotonic()
        out = self._stages.take_output()
        snapshots = self._stages.take_snapshots()
        snapshots[CLOCK_KEY] = str(self._stages.now_ns).encode()
        patience_s = LAST_PATIENCE_S if self._stopping.is_set() else 0.0 if self._stages.urgent else self._patience_s
        self._stages.urgent = False
        commit = Commit(position=self._position, snapshots=snapshots, incidents=out.incidents, runs=list(out.runs.values()))
        try:
            self._persist(self._room_for_rollups)
            snapshots |= self._rollups.settle(out.rollups, self._position, patience_s)
            self._bury_rollups(out)
            self._write("events", self._context.write_events, out.events, out)
            self._write("dead letters", self._context.write_dead_letters, out.dead_letters, None)
            self._persist(lambda: self._commit_all(commit))
        except _Interrupted:
            _logger.warning("stopping with a store down: what was read since %s will be read again", self._committed)
            return
        self._committed = self._position
        self._last_commit = self._monotonic()
        self._last_cost = self._last_commit - start
        self._count(out)
        if self._last_commit >= self._last_trim + TRIM_S:
            self._last_trim = self._last_commit
            self._shorten_log(self._committed)

    def _room_for_rollups(self) -> None:
        if self._rollups.waiting_rows > MOST_ROWS:
            raise StoreUnavailable(self._rollups.problem or "numbers come faster than they can be stored")

    def _bury_rollups(self, out: Output) -> None:
        while self._rollups.unusable:
            row, error = self._rollups.unusable.pop()
            out.dead_letters.append(self._unstorable("rollups", row, error))

    def _unstorable(self, kind: str, record: Any, error: Exception) -> model.DeadLetter:
        data = repr(record).encode("utf-8", "backslashreplace")
        reason = f"cannot be stored: {type(error).__name__}: {error}"
        return dead_letter(tenant_of(record), self._stages.now_ns, reason, "", data, kind)

    def _write(self, kind: str, write: Callable[[Sequence[RecordT]], None], records: list[RecordT], letters: Output | None) -> None:
        """Write records; one that the store chokes on becomes a dead letter, and the others are written."""
        if not records:
            return
        try:
            self._persist(lambda: write(records))
            return
        except _Interrupted:
            raise
        except Exception as error:
            if len(records) == 1:
                _logger.error("one of the %s cannot be stored", kind, exc_info=error)
                if letters is not None:
                    letters.dead_letters.append(self._unstorable(kind, records[0], error))
                return
        half = len(records) // 2
        self._write(kind, write, records[:half], letters)
        self._write(kind, write, records[half:], letters)

    def _commit_all(self, commit: Commit) -> None:
        try:
            self._checkpoint.commit(commit)
        except StoreUnavailable:
            raise
        except Exception as error:
            # Nothing of a commit can be left out without losing a page, so this waits for a person like a store that is down.
            _logger.error("the commit failed", exc_info=error)
            raise StoreUnavailable(f"the commit failed: {type(error).__name__}: {error}") from error

    def _persist(self, action: Callable[[], None]) -> None:
        """Do it, again and again while the store is unavailable. Raises _Interrupted when the service is stopping and it still is."""
        retry, last_try = FIRST_RETRY_S, False
        while True:
            try:
                action()
            except StoreUnavailable as error:
                self._metrics.retries.inc()
                if last_try:
                    raise _Interrupted from error
                last_try = self._stand_still(str(error), retry)
                retry = min(retry * 2, LAST_RETRY_S)
            else:
                self._problem = None
                return

    def _stand_still(self, why: str, pause_s: float) -> bool:
        """Say why, wait; True when the service is stopping."""
        if self._problem != why:
            _logger.error("detection waits: %s", why)
        self._problem = why
        return self._stopping.wait(pause_s)

    def _count(self, out: Output) -> None:
        metrics = self._metrics
        metrics.commit_seconds.observe(self._last_cost)
        metrics.reached.set(self._stages.now_ns / SECOND_NS)
        metrics.dead_letters.inc(len(out.dead_letters))
        metrics.lost(out.dropped)
        for kind, count in (
            ("rollup", len(out.rollups)),
            ("event", len(out.events)),
            ("incident", len(out.incidents)),
            ("run", len(out.runs)),
        ):
            if count:
                metrics.written.labels(kind).inc(count)
        for name in self._stage_names:
            metrics.keys.labels(name).set(self._stages.keys(name))

    def _shorten_log(self, position: str) -> None:
        try:
            self._trim(position)
        except OSError as error:
            _logger.error("old parts of the log cannot be removed: %s", error)
