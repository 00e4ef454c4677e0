"""Hosts one stage on top of Flink's keyed state and timers; Flink itself is behind `KeyStore`.

The calls are those of `detect.keyed`, key by key: see `detect.rules`. A worker's record first has its key ticked up to the record's
own time, because Flink tells an operator of a new time only after the record that brought it.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final, Protocol

import msgspec

from firstfault_server.core import model
from firstfault_server.core.model import SECOND_NS
from firstfault_server.core.stages.protocol import FOREVER, Stage, destinations
from firstfault_server.detect.flink.holes import ClockState, Holes
from firstfault_server.detect.flink.rows import CLOCK_PREFIX, Head, clock_row, head_of, read_log_row, record_of, stage_row, unpacked
from firstfault_server.detect.rules import GONE, Cell, StageRules, dead_letter, due_second, received_ns
from firstfault_server.wire.identity import Identities
from firstfault_server.wire.log_record import MILLISECOND_NS, Foreign, entry, place
from firstfault_server.wire.otlp import Unreadable, decode
from firstfault_server.wire.outputs import OutputRecord

CACHED: Final = 8192
"""Keys whose state is kept decoded; the others are decoded for each call."""
LEAD_NS: Final = 2 * SECOND_NS
"""An urgent record that is further ahead of the log's time waits for its second. Partitions are then read far apart, as when the job
catches up, and whoever's records lie in another partition would look silent or stalled."""
AFTER: Final[Mapping[str, str]] = {"worker": "node", "node": "run", "run": "fleet"}
"""To whom a stage hands on clock rows: to all others in turn."""


class Kept(msgspec.Struct, array_like=True):
    """What Flink keeps of one stage's key beside the records that wait."""

    key: str
    state: bytes
    urgent_s: int = 0
    passed_ns: int = 0
    """Holes up to here were told to the state."""
    armed: int = FOREVER


class KeptStates(msgspec.Struct, array_like=True):
    """What Flink keeps of one key of its own: a process may speak for several runs, which are keys of the worker stage."""

    version: int = 1
    states: list[Kept] = []


class KeyStore(Protocol):
    """Flink's state and timers of the key that is called."""

    def load(self) -> bytes | None:
        """The value, None when there is none."""

    def save(self, data: bytes) -> None:
        """Replace the value."""

    def drop(self) -> None:
        """Forget value and rows."""

    def rows(self) -> list[bytes]:
        """Rows that wait."""

    def add_row(self, row: bytes) -> None:
        """Let a row wait."""

    def keep_rows(self, rows: list[bytes]) -> None:
        """Let these rows wait and no others."""

    def arm(self, second: int) -> None:
        """Have `timer` called when the log reaches this second; once, however often it is said."""


class StateUnreadable(Exception):
    """A stored state cannot be read by this version; going on without it could page twice or not at all."""


class Made(msgspec.Struct):
    """What follows from one call."""

    outputs: list[OutputRecord] = []
    onward: list[tuple[str, str, bytes]] = []
    """Stage, key and row."""


class _HostCell(Cell):
    """A cell with what Flink's state needs to know of it."""

    __slots__ = ("encoded", "passed_ns")

    def __init__(self, state: Any, passed_ns: int) -> None:
        super().__init__(state)
        self.passed_ns = passed_ns
        self.encoded: bytes | None = None
        """The state as it was stored; None when it has changed since."""


class StageHost:
    """One instance of one stage."""

    def __init__(self, name: str, stages: Mapping[str, Stage[Any]], cached: int = CACHED) -> None:
        """`stages`: all of them, since who sends a record tells its key and urgency."""
        self._made = Made()
        self._rules = {each: StageRules(stage, self._bury_failed) for each, stage in stages.items()}
        self._own, self._cached, self.name = self._rules[name], cached, name
        self._cells: dict[str, dict[str, _HostCell]] = {}
        self._armed: dict[str, int] = {}
        """Seconds of keys that were asked since the start; of others an older timer may be waiting."""
        self._holes = Holes()
        self._identities = Identities()
        self._encode = msgspec.msgpack.Encoder().encode
        self._decode = msgspec.msgpack.Decoder(KeptStates).decode
        self._decode_clock = msgspec.msgpack.Decoder(ClockState).decode
        self.counts: Counter[str] = Counter()
        """records, points, drains, failures, and `dead_letters REASON`, since they were last taken."""

    # ---- calls from Flink ------------------------------------------------------------------------------------------------

    def element(self, key: str, row: bytes, store: KeyStore, reached: int) -> Made:
        """A row has come; `reached` is the receive time of Flink's watermark, 0 before the first."""
        self._made = Made()
        self._holes.see(reached)
        if key.startswith(CLOCK_PREFIX):
            now_ns = head_of(unpacked(row)[-1]).now_ns
            self._clock(key, now_ns // SECOND_NS, store)
            if self.name in AFTER:
                self._made.onward.append((AFTER[self.name], key, clock_row(now_ns)))
        elif self.name != "worker":
            (self._take_now if self._own.eager else self._take_later)(key, row, store)
        elif key:
            self.counts["records"] += 1
            self._take_log_row(key, row, store)
        return self._made

    def timer(self, key: str, second: int, store: KeyStore, reached: int) -> Made:
        """The log has reached a second that was armed."""
        self._made = Made()
        self._holes.see(reached)
        if key.startswith(CLOCK_PREFIX):
            self._armed.pop(key, None)
            self._clock(key, second, store)
            return self._made
        armed = self._armed.get(key, second)
        if armed != second:
            return self._made
        self._armed.pop(key, None)
        cells = self._load(key, store)
        rows = [] if self._own.eager else self._fill(key, cells, store)
        for name, cell in list(cells.items()):
            if not self._own.eager or cell.armed <= second:
                self._ask(name, cells, second)
        if not self._own.eager:
            self._empty(key, cells, rows, store)
        self._store(key, cells, store)
        return self._made

    # ---- worker ----------------------------------------------------------------------------------------------------------

    def _take_log_row(self, key: str, data: bytes, store: KeyStore) -> None:
        row = read_log_row(data)
        received, position = row.received_ms * MILLISECOND_NS, place(row.partition, row.offset)
        try:
            taken = entry(row.signal, row.tenant, key.encode(), row.received_ms, row.body)
            batches = decode(taken, position, self._identities)
        except Foreign as error:
            self._bury("foreign", row.tenant.decode("utf-8", "replace"), received, str(error), "", row.body, position)
            return
        except Unreadable as error:
            self._bury("undecodable", taken.tenant, received, str(error), taken.signal, row.body, position)
            return
        except Exception as error:
            reason = f"decoding failed: {type(error).__name__}: {error}"
            self._bury("undecodable", taken.tenant, received, reason, taken.signal, row.body, position)
            return
        cells = self._load(key, store)
        for batch in batches:
            self.counts["points"] += sum([len(series.values) for series in batch.series])
            found = self._own.place(batch, received)
            if found is not None:
                self._take(found[0], cells, batch, received)
        self._store(key, cells, store)

    # ---- the other stages ------------------------------------------------------------------------------------------------

    def _take_now(self, key: str, row: bytes, store: KeyStore) -> None:
        cells = self._load(key, store)
        for each in unpacked(row):
            self.counts["records"] += 1
            self._take(key, cells, record_of(each), head_of(each).now_ns)
        self._store(key, cells, store)

    def _take_later(self, key: str, row: bytes, store: KeyStore) -> None:
        store.add_row(row)
        heads = [head_of(each) for each in unpacked(row)]
        self.counts["records"] += len(heads)
        for head in heads:
            if head.urgent and head.now_ns - self._holes.reached_ns <= LEAD_NS:
                self._take_urgent(key, head.now_ns, store)
        due = min([due_second(head.received_ns, head.now_ns) for head in heads])
        armed = self._armed.get(key)
        if armed is None:
            store.arm(due)
        elif due < armed:
            self._armed[key] = due
            store.arm(due)

    def _take_urgent(self, key: str, now_ns: int, store: KeyStore) -> None:
        cells = self._load(key, store)
        cell = cells.get(key)
        if cell is not None and cell.urgent_s == now_ns // SECOND_NS:
            return
        rows = self._fill(key, cells, store)
        cell = cells[key]
        cell.encoded = None
        self._route(self._own.take_urgent(key, cell, now_ns) or [], now_ns)
        self._empty(key, cells, rows, store)
        self._save(cells, store)

    def _fill(self, key: str, cells: dict[str, _HostCell], store: KeyStore) -> list[bytes]:
        """Put what waits into the key's cell."""
        rows = [each for row in store.rows() for each in unpacked(row)]
        heads = [head_of(row) for row in rows]
        if key not in cells:
            if not rows:
                return rows
            cells[key] = _HostCell(self._own.stage.new(key), min(head.now_ns for head in heads))
        cells[key].waiting = [(head.received_ns, record_of(row)) for head, row in zip(heads, rows, strict=True)]
        return rows

    def _empty(self, key: str, cells: dict[str, _HostCell], rows: list[bytes], store: KeyStore) -> None:
        """Take what still waits out of the cell again and leave it to Flink."""
        cell = cells.get(key)
        if cell is None:
            return
        left = [received for received, _ in cell.waiting]
        if len(left) < len(rows):
            # Records leave by their receive time alone, so the times tell which rows are left.
            times = set(left)
            store.keep_rows([row for row in rows if head_of(row).received_ns in times])
        cell.waiting = []

    # ---- every stage -----------------------------------------------------------------------------------------------------

    def _take(self, name: str, cells: dict[str, _HostCell], record: model.AnyRecord, now_ns: int) -> None:
        """Give a record to an eager stage."""
        second = now_ns // SECOND_NS
        while name in cells and cells[name].armed <= second:
            self._ask(name, cells, cells[name].armed)
        cell = cells.get(name)
        if cell is None:
            cell = cells[name] = _HostCell(self._own.stage.new(name), now_ns)
        cell.encoded = None
        self._route(self._own.batch(name, cell, [record], now_ns), now_ns)
        cell.armed = min(cell.armed, self._own.second_after(name, cell, now_ns))

    def _ask(self, name: str, cells: dict[str, _HostCell], second: int) -> None:
        cell = cells[name]
        if self._holes.swallows(second):
            due = self._own.next_second(name, cell, max(second, self._holes.reached_ns // SECOND_NS))
        else:
            self.counts["drains"] += 1
            made, due, ticked = self._own.ask(name, cell, second)
            if ticked:
                cell.encoded = None
            self._route(made, second * SECOND_NS)
        if due == GONE:
            del cells[name]
        else:
            if due != cell.armed and self._own.eager:
                cell.encoded = None
            cell.armed = due

    def _load(self, key: str, store: KeyStore) -> dict[str, _HostCell]:
        """Cells of a key, with the holes behind them."""
        cells = self._cells.get(key)
        if cells is None:
            cells = self._read(key, store.load())
            if self._cached:
                if len(self._cells) >= self._cached:
                    del self._cells[next(iter(self._cells))]
                self._cells[key] = cells
        for name, cell in cells.items():
            for hole in self._holes.since(cell.passed_ns):
                cell.passed_ns = hole.after_ns
                if self._own.pass_hole(name, cell, hole.length_ns, hole.after_ns):
                    cell.encoded = None
        return cells

    def _read(self, key: str, data: bytes | None) -> dict[str, _HostCell]:
        if data is None:
            return {}
        cells: dict[str, _HostCell] = {}
        try:
            for kept in self._decode(data).states:
                cell = cells[kept.key] = _HostCell(self._own.stage.decode(kept.state), kept.passed_ns)
                cell.urgent_s, cell.armed, cell.encoded = kept.urgent_s, kept.armed, kept.state
        except (ValueError, TypeError) as error:
            raise StateUnreadable(f"the stored state of {self.name} {key!r} cannot be read by this version: {error}") from error
        return cells

    def _store(self, key: str, cells: dict[str, _HostCell], store: KeyStore) -> None:
        """Save what changed and arm the next second."""
        if not cells:
            store.drop()
            self._cells.pop(key, None)
            self._armed.pop(key, None)
            return
        self._save(cells, store)
        due = min(cell.armed for cell in cells.values())
        if self._armed.get(key) != due:
            self._armed[key] = due
            if due < FOREVER:
                store.arm(due)

    def _save(self, cells: dict[str, _HostCell], store: KeyStore) -> None:
        if all(cell.encoded is not None for cell in cells.values()):
            return
        kept = []
        for name, cell in cells.items():
            if cell.encoded is None:
                try:
                    cell.encoded = self._own.stage.encode(cell.state)
                except Exception as error:
                    # What was stored before stays, as it does for other hosts.
                    self._own.failed(name, [], error, self._holes.reached_ns)
                    return
            kept.append(Kept(name, cell.encoded, cell.urgent_s, cell.passed_ns, cell.armed))
        store.save(self._encode(KeptStates(states=kept)))

    def _clock(self, key: str, second: int, store: KeyStore) -> None:
        """Keep the time reached in the state of a clock key, and be called again a second later."""
        data = store.load()
        self._holes.restore(None if data is None else self._decode_clock(data))
        if key in self._armed:
            return
        if self._holes.reached_ns:
            store.save(self._encode(self._holes.kept()))
        due = self._armed[key] = max(second, self._holes.reached_ns // SECOND_NS) + 1
        store.arm(due)

    def _route(self, made: list[model.AnyRecord], now_ns: int) -> None:
        for record in made:
            if isinstance(record, model.Rollup):  # by far the most, and for no stage
                self._made.outputs.append(record)
                continue
            if isinstance(record, model.Dropped):
                self.counts[f"dropped {record.reason}"] += record.points
                continue
            for target in destinations(record, self.name):
                if target.startswith("#"):
                    self._made.outputs.append(record)  # type: ignore[arg-type]
                elif target in self._rules and (found := self._rules[target].place(record, now_ns)) is not None:
                    key, urgent = found
                    # Whoever takes records one by one gets each at once.
                    urgent = urgent or self._rules[target].eager
                    self._made.onward.append((target, key, stage_row(record, Head(now_ns, received_ns(record, now_ns), urgent))))

    def _bury_failed(self, letter: model.DeadLetter) -> None:
        self.counts["failures"] += 1
        self.counts["dead_letters failed"] += 1
        self._made.outputs.append(letter)

    def _bury(self, why: str, tenant: str, received: int, reason: str, signal: str, body: bytes, position: str) -> None:
        self.counts[f"dead_letters {why}"] += 1
        self._made.outputs.append(dead_letter(tenant, received, reason, signal, body, position))
