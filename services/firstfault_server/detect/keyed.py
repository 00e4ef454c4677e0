"""Drives the keyed stages in one process: who is called when, what goes where next. No I/O and no clock of its own.

Two rules, the same in every host: a key is *drained* at a second T with exactly the records received before T, then ticked; and it is
asked again at the *next second* its state names. An urgent record is taken at once, the first one a key a second. Time is the log's
own receive time, so a replay gives the same calls as live.
"""

import hashlib
import heapq
import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from firstfault_server.core import model
from firstfault_server.core.model import SECOND_NS
from firstfault_server.core.stages.protocol import FOREVER, Stage, destinations

HOLE_NS: Final = 5 * SECOND_NS
"""A longer gap between receive times means that the service was away; stages are told (`on_hole`), so nobody looks silent for it."""
AFTER_FAILURE_S: Final = 60
"""A key whose stage failed on a tick is asked again after this long."""
LARGEST_LETTER: Final = 64 << 10

_logger = logging.getLogger(__name__)


class Kept(msgspec.Struct, array_like=True):
    """Snapshot of one key: the stage's state, and the records that wait beside it."""

    state: bytes
    waiting: list[tuple[int, model.AnyRecord]] = []
    urgent_s: int = 0


class Output(msgspec.Struct):
    """What left the core since it was last taken."""

    rollups: list[model.Rollup] = []
    events: list[model.Event] = []
    findings: list[model.Finding] = []
    incidents: list[model.Incident] = []
    runs: dict[tuple[str, str], model.RunStatus] = {}
    """Newest status of each run by (tenant, run)."""
    dead_letters: list[model.DeadLetter] = []


class _Cell:
    """One key of one stage."""

    __slots__ = ("armed", "state", "urgent_s", "waiting")

    def __init__(self, state: Any) -> None:
        self.state = state
        self.waiting: list[tuple[int, model.AnyRecord]] = []
        self.armed = FOREVER
        self.urgent_s = 0


class SnapshotUnreadable(Exception):
    """A stored state cannot be read by this version; going on without it could page twice or not at all."""


class KeyedStages:
    """All stages with all their keys."""

    def __init__(self, stages: Mapping[str, Stage[Any]]) -> None:
        self._stages = dict(stages)
        self._cells: dict[str, dict[str, _Cell]] = {name: {} for name in stages}
        self._due: dict[str, list[tuple[int, str]]] = {name: [] for name in stages}
        self._encode = msgspec.msgpack.Encoder().encode
        self._decode = msgspec.msgpack.Decoder(Kept).decode
        self.output = Output()
        self.urgent = False
        """Set when an incident left or an urgent record was taken; whoever commits resets it."""
        self.changed: set[tuple[str, str]] = set()
        self.now_ns = 0
        """Receive time reached."""
        self.failures: Counter[str] = Counter()
        """Stage -> calls that raised."""

    # ---- time ------------------------------------------------------------------------------------------------------------

    def advance(self, now_ns: int) -> None:
        """The log reached a receive time: tick what has become due. Earlier times change nothing."""
        if not self.now_ns:
            self.now_ns = now_ns
        if now_ns - self.now_ns > HOLE_NS:
            self._pass_hole(now_ns)
        if now_ns > self.now_ns:
            if now_ns // SECOND_NS > self.now_ns // SECOND_NS:
                self._tick_until(now_ns // SECOND_NS)
            self.now_ns = now_ns

    def _tick_until(self, second: int) -> None:
        while True:
            due = min((heap[0][0] for heap in self._due.values() if heap), default=FOREVER)
            if due > second:
                return
            for name in self._stages:
                self._tick(name, due)

    def _tick(self, name: str, second: int) -> None:
        heap, cells = self._due[name], self._cells[name]
        while heap and heap[0][0] <= second:
            armed, key = heapq.heappop(heap)
            cell = cells.get(key)
            if cell is None or cell.armed != armed:
                continue
            cell.armed = FOREVER
            self._ask(name, key, cell, second)

    def _ask(self, name: str, key: str, cell: _Cell, second: int) -> None:
        now_ns = second * SECOND_NS
        ready = [record for received, record in cell.waiting if received < now_ns]
        failed = False
        if ready or self._deadline(name, key, cell) <= now_ns:
            self.changed.add((name, key))
            if ready:
                cell.waiting = [pair for pair in cell.waiting if pair[0] >= now_ns]
                self._batch(name, key, cell, ready, now_ns)
            try:
                made = self._stages[name].on_tick(cell.state, now_ns)
            except Exception as error:
                self._failed(name, key, [], error, now_ns)
                failed = True
            else:
                self._route(name, made, now_ns)
        if failed:
            self._arm(name, key, cell, second + AFTER_FAILURE_S)
        else:
            self._arm_next(name, key, cell, second)

    def _arm_next(self, name: str, key: str, cell: _Cell, second: int) -> None:
        """Arm for the state's deadline and the waiting records, or drop a state that may go."""
        deadline = self._deadline(name, key, cell)
        if cell.waiting:
            self._arm(name, key, cell, max(second, min(received for received, _ in cell.waiting) // SECOND_NS) + 1)
        elif deadline < 0:
            del self._cells[name][key]
            self.changed.add((name, key))
            return
        if 0 <= deadline < FOREVER:
            self._arm(name, key, cell, max(second + 1, -(-deadline // SECOND_NS)))

    def _arm(self, name: str, key: str, cell: _Cell, second: int) -> None:
        if second < cell.armed:
            cell.armed = second
            heapq.heappush(self._due[name], (second, key))

    def _deadline(self, name: str, key: str, cell: _Cell) -> int:
        """The state's deadline; -1 when the state may go."""
        try:
            deadline = self._stages[name].deadline(cell.state)
        except Exception as error:
            self._failed(name, key, [], error, self.now_ns)
            return self.now_ns + AFTER_FAILURE_S * SECOND_NS
        return -1 if deadline is None else deadline

    def _pass_hole(self, now_ns: int) -> None:
        """The service was away: settle what had come before, tell the stages, then set every timer anew."""
        before_ns = self.now_ns
        self._tick_until(before_ns // SECOND_NS + 1)
        self.now_ns = now_ns
        _logger.warning("nothing was received for %.1f s; silence and hang deadlines move by as much", (now_ns - before_ns) / SECOND_NS)
        for name, stage in self._stages.items():
            on_hole = getattr(stage, "on_hole", None)
            self._due[name].clear()
            for key, cell in list(self._cells[name].items()):
                if on_hole is not None:
                    try:
                        on_hole(cell.state, now_ns - before_ns, now_ns)
                    except Exception as error:
                        self._failed(name, key, [], error, now_ns)
                    self.changed.add((name, key))
                cell.armed = FOREVER
                self._arm_next(name, key, cell, now_ns // SECOND_NS)

    # ---- records ---------------------------------------------------------------------------------------------------------

    def give(self, name: str, record: model.AnyRecord, now_ns: int) -> None:
        """Hand a record to a stage: an eager one takes it at once, another when its key is drained."""
        stage = self._stages[name]
        try:
            key = stage.key(record)
            cell = self._cells[name].get(key)
            if cell is None:
                cell = self._cells[name][key] = _Cell(stage.new(key))
            urgent = not stage.eager and stage.urgent(record)
        except Exception as error:
            self._failed(name, "", [record], error, now_ns)
            return
        self.changed.add((name, key))
        if stage.eager:
            self._batch(name, key, cell, [record], now_ns)
            deadline = self._deadline(name, key, cell)
            # A state that could go at once stays for the rest of its second, like one that waits for its deadline.
            if deadline < FOREVER:
                self._arm(name, key, cell, max(now_ns // SECOND_NS + 1, -(-deadline // SECOND_NS)))
            return
        received = getattr(record, "received_ns", now_ns)
        cell.waiting.append((received, record))
        second = now_ns // SECOND_NS
        if urgent and cell.urgent_s != second:
            cell.urgent_s = second
            ready = [waiting for at, waiting in cell.waiting if at <= now_ns]
            cell.waiting = [pair for pair in cell.waiting if pair[0] > now_ns]
            self.urgent = True
            self._batch(name, key, cell, ready, now_ns)
        self._arm(name, key, cell, max(second, received // SECOND_NS) + 1)

    def _batch(self, name: str, key: str, cell: _Cell, records: list[model.AnyRecord], now_ns: int) -> None:
        stage = self._stages[name]
        try:
            made = stage.on_batch(cell.state, records, now_ns)
        except Exception as error:
            if len(records) == 1:
                self._failed(name, key, records, error, now_ns)
                return
            # One of many is to blame; stages take a repeated record as one, so the others can be given again.
            for record in records:
                self._batch(name, key, cell, [record], now_ns)
            return
        self._route(name, made, now_ns)

    def _route(self, origin: str, made: Iterable[model.AnyRecord], now_ns: int) -> None:
        for record in made:
            for target in destinations(record, origin):
                if target.startswith("#"):
                    self._leave(record)
                elif target in self._stages:
                    self.give(target, record, now_ns)

    def _leave(self, record: model.AnyRecord) -> None:
        out = self.output
        match record:
            case model.Rollup():
                out.rollups.append(record)
            case model.Event():
                out.events.append(record)
            case model.Incident():
                out.incidents.append(record)
                self.urgent = True
            case model.RunStatus():
                known = out.runs.get((record.tenant, record.run))
                if known is None or record.revision >= known.revision:
                    out.runs[record.tenant, record.run] = record
            case model.DeadLetter():
                out.dead_letters.append(record)
            case model.Finding():
                out.findings.append(record)

    def _failed(self, name: str, key: str, records: Sequence[model.AnyRecord], error: Exception, now_ns: int) -> None:
        self.failures[name] += 1
        _logger.error("stage %s failed for %s: %s", name, key, error, exc_info=error)
        data = self._encode(records)[:LARGEST_LETTER]
        named = next((getattr(r, "tenant", "") or getattr(getattr(r, "identity", None), "tenant", "") for r in records), "")
        self.output.dead_letters.append(
            dead_letter(named, now_ns, f"stage {name} failed: {type(error).__name__}: {error}", "", data, name, key)
        )

    # ---- snapshots -------------------------------------------------------------------------------------------------------

    def take_output(self) -> Output:
        """What left the core since the last call."""
        taken, self.output = self.output, Output()
        return taken

    def take_snapshots(self) -> dict[tuple[str, str], bytes | None]:
        """States that changed since the last call; None for those that went."""
        taken: dict[tuple[str, str], bytes | None] = {}
        for name, key in self.changed:
            cell = self._cells[name].get(key)
            if cell is None:
                taken[name, key] = None
                continue
            try:
                taken[name, key] = self._encode(Kept(self._stages[name].encode(cell.state), cell.waiting, cell.urgent_s))
            except Exception as error:
                self._failed(name, key, [], error, self.now_ns)
        self.changed.clear()
        return taken

    def restore(self, snapshots: Iterable[tuple[str, str, bytes]], now_ns: int) -> None:
        """Take up states from snapshots, with the receive time they were made at. Raises SnapshotUnreadable."""
        self.now_ns = now_ns
        for name, key, data in snapshots:
            if name not in self._stages:
                continue
            try:
                kept = self._decode(data)
                cell = _Cell(self._stages[name].decode(kept.state))
            except (ValueError, TypeError) as error:
                raise SnapshotUnreadable(f"the stored state of {name} {key!r} cannot be read by this version: {error}") from error
            cell.waiting, cell.urgent_s = kept.waiting, kept.urgent_s
            self._cells[name][key] = cell
            self._arm_next(name, key, cell, now_ns // SECOND_NS)
        self.changed.clear()

    def keys(self, name: str) -> int:
        """How many keys a stage has."""
        return len(self._cells[name])


def tenant_of(record: Any) -> str:
    """Tenant of any record that has one."""
    return str(getattr(record, "tenant", "") or getattr(getattr(record, "identity", None), "tenant", ""))


def dead_letter(tenant: str, received_ns: int, reason: str, signal: str, data: bytes, *place: str) -> model.DeadLetter:
    """A dead letter whose id follows from its content and place, so that writing it twice is writing it once."""
    digest = hashlib.sha256(data)
    for part in (tenant, str(received_ns), reason, signal, *place):
        digest.update(b"\0" + part.encode("utf-8", "replace"))
    return model.DeadLetter(
        id=digest.hexdigest()[:32], tenant=tenant, received_ns=received_ns, reason=reason[:500], signal=signal, data=data[:LARGEST_LETTER]
    )
