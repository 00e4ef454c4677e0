"""When a stage is called, and with what: the rules that every host keeps, for one key at a time. No storage, no clock, no delivery.

Two rules: a key is *drained* at a second T with exactly the records received before T, then ticked; and it is asked again at the
*next second* its state names. An urgent record is taken at once, the first one a key a second. Time is the log's own receive time,
so a replay gives the same calls as live.
"""

import hashlib
import logging
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from firstfault_server.core import model
from firstfault_server.core.model import SECOND_NS
from firstfault_server.core.stages.protocol import FOREVER, Stage

HOLE_NS: Final = 5 * SECOND_NS
"""A longer gap between receive times means that the service was away; stages are told (`on_hole`), so nobody looks silent for it."""
AFTER_FAILURE_S: Final = 60
"""A key whose stage failed on a tick is asked again after this long."""
LARGEST_LETTER: Final = 64 << 10
GONE: Final = -1
"""In place of a second: the state may go."""

_logger = logging.getLogger(__name__)
_encode = msgspec.msgpack.Encoder().encode


class Cell:
    """One key of one stage."""

    __slots__ = ("armed", "state", "urgent_s", "waiting")

    def __init__(self, state: Any) -> None:
        self.state = state
        self.waiting: list[tuple[int, model.AnyRecord]] = []
        """Records for the next drain, each with its receive time."""
        self.armed = FOREVER
        """Second at which the key is asked next; the host sets it."""
        self.urgent_s = 0


class StageRules:
    """One stage under the rules. What a stage raises becomes a dead letter, and everything else goes on."""

    def __init__(self, stage: Stage[Any], failed: Callable[[model.DeadLetter], None]) -> None:
        """`failed` takes the dead letter of each call that raised."""
        self.stage, self._on_failed = stage, failed
        self.name, self.eager = stage.name, stage.eager
        self._on_hole = getattr(stage, "on_hole", None)

    def place(self, record: model.AnyRecord, now_ns: int) -> tuple[str, bool] | None:
        """Key of a record and whether it is urgent; None when the stage cannot tell."""
        try:
            return self.stage.key(record), not self.stage.eager and self.stage.urgent(record)
        except Exception as error:
            self.failed("", [record], error, now_ns)
            return None

    def new(self, key: str) -> Cell:
        """A key seen for the first time."""
        return Cell(self.stage.new(key))

    # ---- calls -----------------------------------------------------------------------------------------------------------

    def batch(self, key: str, cell: Cell, records: list[model.AnyRecord], now_ns: int) -> list[model.AnyRecord]:
        """Give records to the stage; when it raises, one by one."""
        try:
            return self.stage.on_batch(cell.state, records, now_ns)
        except Exception as error:
            if len(records) == 1:
                self.failed(key, records, error, now_ns)
                return []
        # One of many is to blame; stages take a repeated record as one, so the others can be given again.
        return [made for record in records for made in self.batch(key, cell, [record], now_ns)]

    def wait(self, cell: Cell, record: model.AnyRecord, now_ns: int) -> int:
        """Put a record beside the state until the key is drained; the second at which that must be at the latest."""
        received = received_ns(record, now_ns)
        cell.waiting.append((received, record))
        return due_second(received, now_ns)

    def take_urgent(self, key: str, cell: Cell, now_ns: int) -> list[model.AnyRecord] | None:
        """What follows from an urgent record among those that wait; None when this second had one already."""
        second = now_ns // SECOND_NS
        if cell.urgent_s == second:
            return None
        cell.urgent_s = second
        ready = [record for received, record in cell.waiting if received <= now_ns]
        cell.waiting = [pair for pair in cell.waiting if pair[0] > now_ns]
        return self.batch(key, cell, ready, now_ns)

    def ask(self, key: str, cell: Cell, second: int) -> tuple[list[model.AnyRecord], int, bool]:
        """Drain and tick a key whose second has come, if there is anything to it: what was made, `next_second`, whether it was ticked."""
        now_ns = second * SECOND_NS
        ready = [record for received, record in cell.waiting if received < now_ns]
        made: list[model.AnyRecord] = []
        if not ready and self._deadline(key, cell, now_ns) > now_ns:
            return made, self.next_second(key, cell, second), False
        if ready:
            cell.waiting = [pair for pair in cell.waiting if pair[0] >= now_ns]
            made += self.batch(key, cell, ready, now_ns)
        try:
            made += self.stage.on_tick(cell.state, now_ns)
        except Exception as error:
            self.failed(key, [], error, now_ns)
            return made, second + AFTER_FAILURE_S, True
        return made, self.next_second(key, cell, second), True

    def pass_hole(self, key: str, cell: Cell, hole_ns: int, now_ns: int) -> bool:
        """Tell the stage that receive time jumped; whether it cares."""
        if self._on_hole is None:
            return False
        try:
            self._on_hole(cell.state, hole_ns, now_ns)
        except Exception as error:
            self.failed(key, [], error, now_ns)
        return True

    # ---- seconds ---------------------------------------------------------------------------------------------------------

    def next_second(self, key: str, cell: Cell, second: int) -> int:
        """When to ask again after this second: for the deadline or what waits; FOREVER for never, GONE for a state that may go."""
        deadline = self._deadline(key, cell, second * SECOND_NS)
        due = FOREVER
        if cell.waiting:
            due = max(second, min(received for received, _ in cell.waiting) // SECOND_NS) + 1
        elif deadline < 0:
            return GONE
        if 0 <= deadline < FOREVER:
            due = min(due, max(second + 1, -(-deadline // SECOND_NS)))
        return due

    def second_after(self, key: str, cell: Cell, now_ns: int) -> int:
        """The same for an eager stage that has just taken a record.

        A state that could go at once stays for the rest of its second, like one that waits for its deadline.
        """
        deadline = self._deadline(key, cell, now_ns)
        return FOREVER if deadline >= FOREVER else max(now_ns // SECOND_NS + 1, -(-deadline // SECOND_NS))

    def _deadline(self, key: str, cell: Cell, now_ns: int) -> int:
        """The state's deadline; negative when the state may go."""
        try:
            deadline = self.stage.deadline(cell.state)
        except Exception as error:
            self.failed(key, [], error, now_ns)
            return now_ns + AFTER_FAILURE_S * SECOND_NS
        return GONE if deadline is None else deadline

    def failed(self, key: str, records: Sequence[model.AnyRecord], error: Exception, now_ns: int) -> None:
        """Log and bury what a stage raised."""
        _logger.error("stage %s failed for %s: %s", self.name, key, error, exc_info=error)
        data = _encode(records)[:LARGEST_LETTER]
        named = next((tenant for record in records if (tenant := tenant_of(record))), "")
        reason = f"stage {self.name} failed: {type(error).__name__}: {error}"
        self._on_failed(dead_letter(named, now_ns, reason, "", data, self.name, key))


def received_ns(record: model.AnyRecord, now_ns: int) -> int:
    """Receive time of a record; of one that has none, the time of the call that made it."""
    received: int = getattr(record, "received_ns", now_ns)
    return received


def due_second(received: int, now_ns: int) -> int:
    """The second at which a record that waits is drained at the latest."""
    return max(now_ns, received) // SECOND_NS + 1


def tenant_of(record: Any) -> str:
    """Tenant of any record that has one."""
    return str(getattr(record, "tenant", "") or getattr(getattr(record, "identity", None), "tenant", ""))


def dead_letter(tenant: str, received: int, reason: str, signal: str, data: bytes, *where: str) -> model.DeadLetter:
    """A dead letter whose id follows from its content and place, so that writing it twice is writing it once."""
    digest = hashlib.sha256(data)
    for part in (tenant, str(received), reason, signal, *where):
        digest.update(b"\0" + part.encode("utf-8", "replace"))
    return model.DeadLetter(
        id=digest.hexdigest()[:32], tenant=tenant, received_ns=received, reason=reason[:500], signal=signal, data=data[:LARGEST_LETTER]
    )
