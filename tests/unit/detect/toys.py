"""Small stages with every trait a host must serve: eager and gathering, urgent, lazy deadlines, holes, outputs."""

from collections.abc import Sequence

import msgspec

from firstfault_server.core import model
from firstfault_server.core.stages.protocol import FOREVER

S = 1_000_000_000
IDLE_NS = 20 * S
SILENT_NS = 8 * S


class WorkerState(msgspec.Struct):
    last_ns: int = 0
    seen: int = 0


class ToyWorker:
    """Emits a summary per batch, an event per log record, a rollup per series."""

    name, eager = "worker", True

    def key(self, record: model.Batch) -> str:
        return f"{record.identity.tenant}/{record.identity.process}"

    def new(self, key: str) -> WorkerState:
        return WorkerState()

    def urgent(self, record: model.Batch) -> bool:
        return False

    def on_batch(self, state: WorkerState, records: Sequence[model.Batch], now_ns: int) -> list[model.AnyRecord]:
        out: list[model.AnyRecord] = []
        for batch in records:
            who = batch.identity
            state.last_ns = batch.received_ns
            state.seen += 1
            if any(record.body == "raise" for record in batch.logs):
                raise RuntimeError("told to")
            for series in batch.series:
                out.append(
                    model.Rollup(
                        tenant=who.tenant,
                        run=who.run,
                        process=who.process,
                        metric=series.metric,
                        window_ns=0,
                        position=batch.position,
                        count=len(series.values),
                        sum=sum(series.values),
                    )
                )
            for i, record in enumerate(batch.logs):
                out.append(
                    model.Event(
                        id=f"{batch.position}-{i}",
                        identity=who,
                        time_ns=record.time_ns,
                        received_ns=batch.received_ns,
                        event_name=record.event_name,
                        severity=17,
                        body=record.body,
                    )
                )
            out.append(model.Summary(identity=who, received_ns=batch.received_ns, time_ns=batch.received_ns, step=state.seen))
        return out

    def on_tick(self, state: WorkerState, now_ns: int) -> list[model.AnyRecord]:
        return []

    def deadline(self, state: WorkerState) -> int | None:
        return state.last_ns + IDLE_NS

    def encode(self, state: WorkerState) -> bytes:
        return msgspec.msgpack.encode(state)

    def decode(self, data: bytes) -> WorkerState:
        return msgspec.msgpack.decode(data, type=WorkerState)


class RunState(msgspec.Struct):
    key: str
    last: dict[str, int] = {}
    silent: list[str] = []
    errors: list[str] = []
    revision: int = 0
    batches: list[int] = []
    ticks: list[int] = []
    done: bool = False


class ToyRun:
    """One incident per run: named errors and silent processes."""

    name, eager = "run", False

    def key(self, record: model.Summary | model.Event) -> str:
        return f"{record.identity.tenant}/{record.identity.run}"

    def new(self, key: str) -> RunState:
        return RunState(key)

    def urgent(self, record: model.Summary | model.Event) -> bool:
        return isinstance(record, model.Event) and record.event_name == "exception"

    def on_batch(self, state: RunState, records: Sequence[model.Summary | model.Event], now_ns: int) -> list[model.AnyRecord]:
        state.batches.append(len(records))
        before = len(state.errors)
        for record in records:
            state.last[record.identity.process] = record.received_ns
            if isinstance(record, model.Event):
                if record.body == "poison":
                    raise ValueError("poison")
                if record.body == "end":
                    state.done = True
                elif record.event_name == "exception" and record.body not in state.errors:
                    state.errors.append(record.body)
        return self._incident(state, now_ns) if len(state.errors) > before else []

    def on_tick(self, state: RunState, now_ns: int) -> list[model.AnyRecord]:
        state.ticks.append(now_ns // S)
        new = [p for p, at in sorted(state.last.items()) if p not in state.silent and now_ns - at > SILENT_NS]
        state.silent += new
        return self._incident(state, now_ns) if new else []

    def on_hole(self, state: RunState, hole_ns: int, now_ns: int) -> None:
        state.last = {p: at + hole_ns for p, at in state.last.items()}

    def _incident(self, state: RunState, now_ns: int) -> list[model.AnyRecord]:
        state.revision += 1
        tenant, _, run = state.key.partition("/")
        return [
            model.Incident(
                id=f"i-{run}",
                revision=state.revision,
                tenant=tenant,
                run=model.RunRef(id=run),
                symptom="toy",
                title=f"errors {state.errors} silent {state.silent}",
                opened_at=now_ns,
                updated_at=now_ns,
            )
        ]

    def deadline(self, state: RunState) -> int | None:
        if state.done:
            return None
        waiting = [at for p, at in state.last.items() if p not in state.silent]
        return min(waiting) + SILENT_NS + 1 if waiting else FOREVER

    def encode(self, state: RunState) -> bytes:
        return msgspec.msgpack.encode(state)

    def decode(self, data: bytes) -> RunState:
        return msgspec.msgpack.decode(data, type=RunState)


class ToyFleet:
    """Passes incidents on, counting them."""

    name, eager = "fleet", False

    def key(self, record: model.Incident) -> str:
        return record.tenant

    def new(self, key: str) -> dict[str, int]:
        return {}

    def urgent(self, record: model.Incident) -> bool:
        return record.revision == 1

    def on_batch(self, state: dict[str, int], records: Sequence[model.Incident], now_ns: int) -> list[model.AnyRecord]:
        for record in records:
            state[record.id] = record.revision
        return list(records)

    def on_tick(self, state: dict[str, int], now_ns: int) -> list[model.AnyRecord]:
        return []

    def deadline(self, state: dict[str, int]) -> int | None:
        return FOREVER

    def encode(self, state: dict[str, int]) -> bytes:
        return msgspec.msgpack.encode(state)

    def decode(self, data: bytes) -> dict[str, int]:
        return msgspec.msgpack.decode(data, type=dict[str, int])
