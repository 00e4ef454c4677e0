"""The stages as a later version might have them: the run stage has learnt to keep one thing more. Imported by Flink's Python."""

from typing import Any

import msgspec

from firstfault_server.core import model
from firstfault_server.core.stages.codec import StateCodec
from firstfault_server.core.stages.protocol import Stage
from firstfault_server.core.stages.run_state import RunState
from firstfault_server.core.thresholds import Thresholds
from firstfault_server.detect.flink import plan

NOTE = "ticks since the upgrade:"


class LaterState(RunState, omit_defaults=True):
    """With a field that states of this version do not have."""

    ticks: int = 0


class LaterRun:
    """The run stage, counting its ticks and telling of them in the run's notes."""

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

    def on_tick(self, state: LaterState, now_ns: int) -> list[model.AnyRecord]:
        """As before, and one more."""
        state.ticks += 1
        made: list[model.AnyRecord] = self._run.on_tick(state, now_ns)
        for record in made:
            if isinstance(record, model.RunStatus):
                record.notes.append(f"{NOTE} {state.ticks}")
        return made


def stages(thresholds: Thresholds) -> dict[str, Stage[Any]]:
    """All stages of the later version."""
    made = plan.stages(thresholds)
    later: Any = LaterRun(made["run"])
    return {**made, "run": later}
