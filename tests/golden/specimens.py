"""What must stay readable: how its bytes are made today, and how they are read."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import msgspec
from msgspec import inspect

from firstfault_server.core import model
from firstfault_server.core.stages import fleet, node, run_state, worker_state
from firstfault_server.core.stages.codec import StateCodec
from firstfault_server.core.stages.protocol import Stage
from firstfault_server.core.thresholds import Thresholds
from firstfault_server.detect import keyed
from firstfault_server.detect.flink import holes, keyed_host, plan, rows
from firstfault_server.wire import codec
from firstfault_server.wire.outputs import ROLLUPS, TOPICS, incoming
from firstfault_server.wire.pb import records_pb2 as pb
from firstfault_server.wire.rollups import encode_rollups
from tests.golden.filling import filled

STATES: Final[dict[str, type[msgspec.Struct]]] = {
    "worker": worker_state.WorkerState,
    "node": node.NodeState,
    "run": run_state.RunState,
    "fleet": fleet.Kept,
}
KEPT: Final = (keyed_host.KeptStates, holes.ClockState, keyed.Kept)
"""What hosts store beside the states of stages."""
HEAD: Final = rows.Head(now_ns=1_000_000_001, received_ns=1_000_000_002, urgent=True)
CROSSING: Final[tuple[type[msgspec.Struct], ...]] = tuple(
    each.cls
    for each in inspect.multi_type_info([model.AnyRecord])[0].types  # type: ignore[attr-defined]
)
"""Records that may wait between stages."""


class Specimen(msgspec.Struct, frozen=True):
    """One kind of bytes."""

    name: str
    kind: type[msgspec.Struct]
    write: Callable[[], bytes]
    """As this version does, with every field of the kind."""
    read: Callable[[bytes], Any]


def specimens() -> dict[str, list[Specimen]]:
    """By the file that holds their bytes."""
    return {"topics": list(_topics()), "states": list(_states()), "rows": list(_rows())}


def _topics() -> Iterator[Specimen]:
    for kind, topic in TOPICS.items():
        write = _rollup_rows if topic == ROLLUPS else partial(_message, kind)
        yield Specimen(f"{topic} {kind.__name__}", kind, write, partial(_incoming, topic))
    yield Specimen(f"{ROLLUPS} Rollup in columns", model.Rollup, _rollup_columns, partial(_incoming, ROLLUPS))


def _rollup_columns() -> bytes:
    (data,) = encode_rollups([filled(model.Rollup)])
    return data


def _message(kind: type[msgspec.Struct]) -> bytes:
    return codec.encode(filled(kind))


def _incoming(topic: str, data: bytes) -> Any:
    (record,) = incoming(topic, data)
    return record


def _rollup_rows() -> bytes:
    """A batch with a message for each rollup, as it was written at first."""
    row = pb.Rollup.FromString(codec.encode(filled(model.Rollup)))
    return pb.RollupBatch(rollups=[row]).SerializeToString(deterministic=True)


def _states() -> Iterator[Specimen]:
    stages = plan.stages(Thresholds())
    for name, kind in STATES.items():
        yield Specimen(f"state of {name}", kind, partial(_state, kind), partial(_decoded, stages[name]))
    for kind in KEPT:
        name = f"{kind.__module__.removeprefix('firstfault_server.')}.{kind.__name__}"
        yield Specimen(name, kind, partial(_packed, kind), msgspec.msgpack.Decoder(kind).decode)


def _state(kind: type[msgspec.Struct]) -> bytes:
    return StateCodec(kind).encode(filled(kind))


def _decoded(stage: Stage[Any], data: bytes) -> Any:
    state = stage.decode(data)
    return state.kept if isinstance(state, fleet.FleetState) else state


def _packed(kind: type[msgspec.Struct]) -> bytes:
    return msgspec.msgpack.encode(filled(kind))


def _rows() -> Iterator[Specimen]:
    for kind in CROSSING:
        yield Specimen(f"row {kind.__name__}", kind, partial(_row, kind), _record)


def _row(kind: Any) -> bytes:
    return rows.stage_row(filled(kind), HEAD)


def _record(data: bytes) -> Any:
    if rows.head_of(data) != HEAD:
        raise ValueError(f"the head of the row is read as {rows.head_of(data)}, not {HEAD}")
    return rows.record_of(data)
