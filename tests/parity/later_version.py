"""The stages as a later version might have them: the run stage has learnt to keep one thing more. Imported by Flink's Python."""

from collections.abc import Sequence
from typing import Any

import msgspec

from firstfault_server.core import model
from firstfault_server.core.stages.codec import StateCodec
from firstfault_server.core.stages.protocol import Stage
from firstfault_server.core.stages.run_state import RunState
from firstfault_server.core.thresholds import Thresholds
from firstfault_server.detect.flink import plan

NOTE = "looks since the upgrade:"


class LaterState(RunState, omit_defaults=True):
    """With a field that states of this version do not have."""

    looks: int = 0


class LaterRun:
    """The run stage, counting how often it looked and telling of it in the run's notes."""

    name, eager = "run", False

    def __init__(self, run: Any) -> None:
        self._run = run
        codec = StateCodec(LaterState)
        self.encode, self.decode = codec.encode, codec.decode

    def __getattr__(self, name: str) -> Any:
        return getattr(self._run, name)

    def new(self, key: str) -> LaterState:
        """Nothing seen."""
        return msgspec.convert(msgspec.to_builtins(self._run.new(key)), LaterState)

    def on_batch(self, state: LaterState, records: Sequence[Any], now_ns: int) -> list[model.AnyRecord]:
        """As before, and one more."""
        return self._counted(state, self._run.on_batch(state, records, now_ns))

    def on_tick(self, state: LaterState, now_ns: int) -> list[model.AnyRecord]:
        """As before, and one more."""
        return self._counted(state, self._run.on_tick(state, now_ns))

    @staticmethod
    def _counted(state: LaterState, made: list[model.AnyRecord]) -> list[model.AnyRecord]:
        state.looks += 1
        for record in made:
            if isinstance(record, model.RunStatus):
                record.notes.append(f"{NOTE} {state.looks}")
        return made


def stages(thresholds: Thresholds) -> dict[str, Stage[Any]]:
    """All stages of the later version."""
    made = plan.stages(thresholds)
    later: Any = LaterRun(made["run"])
    return {**made, "run": later}
