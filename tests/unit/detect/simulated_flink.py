"""A stand-in for Flink's operators, state and timers (Flink needs an environment of its own; tests/parity runs the real one)."""

import heapq
from collections.abc import Mapping
from typing import Any

from firstfault_server.core.stages.protocol import Stage
from firstfault_server.detect.flink.keyed_host import Made, StageHost
from firstfault_server.detect.flink.rows import LogRow, clock_row, head_of, packed, timer_ms, write_log_row
from firstfault_server.wire.outputs import OutputRecord

CLOCK_KEYS = ("clock-0", "clock-7")


class Key:
    """State of one key of one operator."""

    def __init__(self, operator: "Operator", name: str) -> None:
        self.operator, self.name = operator, name
        self.value: bytes | None = None
        self.waiting: list[bytes] = []

    def load(self) -> bytes | None:
        return self.value

    def save(self, data: bytes) -> None:
        self.value = data

    def drop(self) -> None:
        self.value, self.waiting = None, []

    def rows(self) -> list[bytes]:
        return list(self.waiting)

    def add_row(self, row: bytes) -> None:
        self.waiting.append(row)

    def keep_rows(self, rows: list[bytes]) -> None:
        self.waiting = rows

    def arm(self, second: int) -> None:
        if (second, self.name) not in self.operator.timers:
            heapq.heappush(self.operator.timers, (second, self.name))


class Operator:
    """One stage with what Flink keeps for it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.keys: dict[str, Key] = {}
        self.timers: list[tuple[int, str]] = []
        self.host: StageHost | None = None

    def key(self, name: str) -> Key:
        """State of a key, empty at first."""
        return self.keys.setdefault(name, Key(self, name))


class SimulatedFlink:
    """The job's operators in one thread; a watermark follows each record, and rows for stages are gathered as `Gather.java` does."""

    def __init__(self, stages: Mapping[str, Stage[Any]], cached: int = 4096) -> None:
        self.operators = {name: Operator(name) for name in stages}
        self.outputs: list[OutputRecord] = []
        self.cached = cached
        self.gathered: dict[tuple[str, str], list[bytes]] = {}
        self.restart(stages)

    def restart(self, stages: Mapping[str, Stage[Any]]) -> None:
        """Everything but Flink's state and timers is lost, after a checkpoint."""
        self._send()
        self.watermark = 0
        for name, operator in self.operators.items():
            operator.host = StageHost(name, stages, self.cached)

    def put(self, key: str, row: LogRow) -> None:
        """A record of the input topic, then the watermark that follows from it."""
        self.element("worker", key, write_log_row(row))
        self.advance(row.received_ms)

    def clocks(self, received_ms: int) -> None:
        """What the source sends to each clock key now and then."""
        for key in CLOCK_KEYS:
            self.element("worker", key, clock_row(received_ms * 1_000_000))

    def element(self, stage: str, key: str, row: bytes) -> None:
        operator = self.operators[stage]
        assert operator.host is not None
        self._leave(operator.host.element(key, row, operator.key(key), self.watermark))

    def advance(self, received_ms: int) -> None:
        """The watermark passes the operators in turn."""
        if received_ms * 1_000_000 <= self.watermark:
            return
        self._send()
        self.watermark = received_ms * 1_000_000
        for operator in self.operators.values():
            # What the stage before has just made goes before the watermark.
            self._send()
            while operator.timers and timer_ms(operator.timers[0][0]) <= received_ms - 1:
                second, key = heapq.heappop(operator.timers)
                assert operator.host is not None
                self._leave(operator.host.timer(key, second, operator.key(key), self.watermark))

    def _leave(self, made: Made) -> None:
        self.outputs += made.outputs
        for stage, key, row in made.onward:
            if stage in self.operators:
                self.gathered.setdefault((stage, key), []).append(row)
                if head_of(row).urgent:
                    self._send((stage, key))

    def _send(self, *places: tuple[str, str]) -> None:
        while waiting := [place for place in (places or self.gathered) if place in self.gathered]:
            for stage, key in waiting:
                self.element(stage, key, packed(self.gathered.pop((stage, key))))
