"""A stage as a keyed process function of PyFlink, in thread mode. Rows in: (key, bytes); out: one packet a call (rows.py)."""

import threading
from collections.abc import Iterable
from typing import Any, Final

from pyflink.common import Types
from pyflink.datastream import KeyedProcessFunction, RuntimeContext
from pyflink.datastream.state import ListStateDescriptor, ValueStateDescriptor

from firstfault_server.core.stages import breadth
from firstfault_server.detect.flink.emission import written
from firstfault_server.detect.flink.keyed_host import AFTER, Made, StageHost
from firstfault_server.detect.flink.plan import Plan, made_stages
from firstfault_server.detect.flink.rows import CLOCK_PREFIX, packet, reached_ns, timer_ms, timer_second
from firstfault_server.wire.outputs import TOPICS

REASONS: Final = ("foreign", "undecodable", "failed", "unwritable")
DROPPED: Final = (breadth.REASON,)
# All stages of a TaskManager open at the same moment in threads of one Python, and share nothing but this module. msgspec cannot have two
# threads meet a type for the first time at once: that ends the process.
_OPENING: Final = threading.Lock()

TARGETS: Final = (*TOPICS.values(), *AFTER.values())
"""Topics and stages that rows go to; packets name them by their place here."""


def stage_rows() -> Any:
    """Type of rows for stages: key and bytes."""
    return Types.ROW([Types.STRING(), byte_array()])


def byte_array() -> Any:
    """Type of the bytes of a row, and of a packet."""
    return Types.PRIMITIVE_ARRAY(Types.BYTE())


class KeyedStage(KeyedProcessFunction):
    """One stage; everything but Flink's own calls is in `StageHost`, whose `KeyStore` this is."""

    def __init__(self, name: str, plan: Plan) -> None:
        self._name, self._plan = name, plan

    def open(self, runtime_context: RuntimeContext) -> None:
        """Once for each instance, in the TaskManager."""
        with _OPENING:
            self._host = StageHost(self._name, made_stages(self._plan), self._plan.flink_cached)
        self._value = runtime_context.get_state(ValueStateDescriptor("state", Types.PICKLED_BYTE_ARRAY()))
        self._waiting = runtime_context.get_list_state(ListStateDescriptor("waiting", Types.PICKLED_BYTE_ARRAY()))
        self._places = {name: place for place, name in enumerate(TARGETS)}
        group = runtime_context.get_metrics_group().add_group("firstfault").add_group("stage", self._name)
        self._counters = {name: group.counter(name) for name in ("records", "points", "drains", "failures")}
        for reason in REASONS:
            self._counters[f"dead_letters {reason}"] = group.add_group("reason", reason).counter("dead_letters")
        for reason in DROPPED:
            self._counters[f"dropped {reason}"] = group.add_group("reason", reason).counter("dropped_points")

    def process_element(self, value: bytes, ctx: KeyedProcessFunction.Context) -> Iterable[bytes]:
        """A row from the source or the stage before."""
        self._timers = ctx.timer_service()
        reached = reached_ns(self._timers.current_watermark())
        return self._packet(self._host.element(ctx.get_current_key(), value, self, reached), reached)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[bytes]:
        """The log has reached a second that was armed."""
        self._timers = ctx.timer_service()
        reached = reached_ns(self._timers.current_watermark())
        key = ctx.get_current_key()
        made = self._host.timer(key, timer_second(timestamp), self, reached)
        if key.startswith(CLOCK_PREFIX):
            self._count()
        return self._packet(made, reached)

    def _packet(self, made: Made, reached: int) -> Iterable[bytes]:
        parts = [(self._places[stage], key.encode("utf-8", "replace"), row) for stage, key, row in made.onward]
        if made.outputs:
            sent, lost = written(made.outputs, reached)
            if lost:
                self._host.counts["dead_letters unwritable"] += lost
            parts += [(self._places[one.topic], one.key, one.value) for one in sent]
        return (packet(parts),) if parts else ()

    def _count(self) -> None:
        """Hand counts to Flink once a second: a call for each record would cost more than some records do."""
        counts = self._host.counts
        for name, counter in self._counters.items():
            if number := counts.pop(name, 0):
                counter.inc(number)

    # ---- KeyStore --------------------------------------------------------------------------------------------------------

    def load(self) -> bytes | None:
        """The value, None when there is none."""
        value: bytes | None = self._value.value()
        return value

    def save(self, data: bytes) -> None:
        """Replace the value."""
        self._value.update(data)

    def drop(self) -> None:
        """Forget value and rows."""
        self._value.clear()
        self._waiting.clear()

    def rows(self) -> list[bytes]:
        """Rows that wait."""
        return list(self._waiting.get())

    def add_row(self, row: bytes) -> None:
        """Let a row wait."""
        self._waiting.add(row)

    def keep_rows(self, rows: list[bytes]) -> None:
        """Let these rows wait and no others."""
        if rows:
            self._waiting.update(rows)
        else:
            self._waiting.clear()

    def arm(self, second: int) -> None:
        """Have `on_timer` called when the log reaches this second."""
        self._timers.register_event_time_timer(timer_ms(second))
