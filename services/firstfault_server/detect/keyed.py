"""Drives the keyed stages in one process: who is called when, what goes where next. No I/O and no clock of its own.

The rules of one key are in `rules`; here are all keys of all stages, in the order of time.
"""

import heapq
import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import msgspec

from firstfault_server.core import model
from firstfault_server.core.model import SECOND_NS
from firstfault_server.core.stages.protocol import FOREVER, Stage, destinations
from firstfault_server.detect.rules import GONE, HOLE_NS, Cell, StageRules

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
    dropped: list[model.Dropped] = []


class SnapshotUnreadable(Exception):
    """A stored state cannot be read by this version; going on without it could page twice or not at all."""


class KeyedStages:
    """All stages with all their keys."""

    def __init__(self, stages: Mapping[str, Stage[Any]]) -> None:
        self._stages = {name: StageRules(stage, partial(self._bury, name)) for name, stage in stages.items()}
        self._cells: dict[str, dict[str, Cell]] = {name: {} for name in stages}
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

    def _ask(self, name: str, key: str, cell: Cell, second: int) -> None:
        made, due, ticked = self._stages[name].ask(key, cell, second)
        if ticked:
            self.changed.add((name, key))
        self._route(name, made, second * SECOND_NS)
        self._arm_or_drop(name, key, cell, due)

    def _arm_or_drop(self, name: str, key: str, cell: Cell, due: int) -> None:
        if due == GONE:
            del self._cells[name][key]
            self.changed.add((name, key))
        elif due < FOREVER:
            self._arm(name, key, cell, due)

    def _arm(self, name: str, key: str, cell: Cell, second: int) -> None:
        if second < cell.armed:
            cell.armed = second
            heapq.heappush(self._due[name], (second, key))

    def _pass_hole(self, now_ns: int) -> None:
        """The service was away: settle what had come before, tell the stages, then set every timer anew."""
        before_ns = self.now_ns
        self._tick_until(before_ns // SECOND_NS + 1)
        self.now_ns = now_ns
        _logger.warning("nothing was received for %.1f s; silence and hang deadlines move by as much", (now_ns - before_ns) / SECOND_NS)
        for name, rules in self._stages.items():
            self._due[name].clear()
            for key, cell in list(self._cells[name].items()):
                if rules.pass_hole(key, cell, now_ns - before_ns, now_ns):
                    self.changed.add((name, key))
                cell.armed = FOREVER
                self._arm_or_drop(name, key, cell, rules.next_second(key, cell, now_ns // SECOND_NS))

    # ---- records ---------------------------------------------------------------------------------------------------------

    def give(self, name: str, record: model.AnyRecord, now_ns: int) -> None:
        """Hand a record to a stage: an eager one takes it at once, another when its key is drained."""
        rules = self._stages[name]
        found = rules.place(record, now_ns)
        if found is None:
            return
        key, urgent = found
        cell = self._cells[name].get(key)
        if cell is None:
            cell = self._cells[name][key] = rules.new(key)
        self.changed.add((name, key))
        if rules.eager:
            self._route(name, rules.batch(key, cell, [record], now_ns), now_ns)
            self._arm(name, key, cell, rules.second_after(key, cell, now_ns))
            return
        due = rules.wait(cell, record, now_ns)
        if urgent and (made := rules.take_urgent(key, cell, now_ns)) is not None:
            self.urgent = True
            self._route(name, made, now_ns)
        self._arm(name, key, cell, due)

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
            case model.Dropped():
                out.dropped.append(record)
            case model.Finding():
                out.findings.append(record)

    def _bury(self, name: str, letter: model.DeadLetter) -> None:
        self.failures[name] += 1
        self.output.dead_letters.append(letter)

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
                taken[name, key] = self._encode(Kept(self._stages[name].stage.encode(cell.state), cell.waiting, cell.urgent_s))
            except Exception as error:
                self._stages[name].failed(key, [], error, self.now_ns)
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
                cell = Cell(self._stages[name].stage.decode(kept.state))
            except (ValueError, TypeError) as error:
                raise SnapshotUnreadable(f"the stored state of {name} {key!r} cannot be read by this version: {error}") from error
            cell.waiting, cell.urgent_s = kept.waiting, kept.urgent_s
            self._cells[name][key] = cell
            self._arm_or_drop(name, key, cell, self._stages[name].next_second(key, cell, now_ns // SECOND_NS))
        self.changed.clear()

    def keys(self, name: str) -> int:
        """How many keys a stage has."""
        return len(self._cells[name])
