"""Rollups as protobuf, many in a message: written and read field by field, since there are as many of them as of anything else."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from google.protobuf.message import DecodeError

from firstfault_server.core import model
from firstfault_server.wire.pb import records_pb2 as pb
from firstfault_server.wire.unreadable import Unreadable

MOST_BYTES: Final = 1 << 20
"""About how large a message may become; one rollup of its own may be larger."""
NUMBERS_BYTES: Final = 160
"""What a rollup takes besides its texts."""


def encode_rollups(rollups: Iterable[model.Rollup]) -> list[bytes]:
    """As few messages as hold them, in their order."""
    return [pb.RollupBatch(rollups=[_message(row) for row in part]).SerializeToString(deterministic=True) for part in _parts(rollups)]


def decode_rollups(data: bytes) -> list[model.Rollup]:
    """The rollups of a message. Raises Unreadable."""
    try:
        return [_record(row) for row in pb.RollupBatch.FromString(data).rollups]
    except DecodeError as error:
        raise Unreadable(f"not a RollupBatch: {error}") from error


def _parts(rollups: Iterable[model.Rollup]) -> Iterator[Sequence[model.Rollup]]:
    part: list[model.Rollup] = []
    size = 0
    for row in rollups:
        length = NUMBERS_BYTES + len(row.run) + len(row.process) + len(row.metric) + 2 * len(row.attributes)
        if part and size + length > MOST_BYTES:
            yield part
            part, size = [], 0
        part.append(row)
        size += length
    if part:
        yield part


def _message(row: model.Rollup) -> Any:
    return pb.Rollup(
        tenant=row.tenant,
        run=row.run,
        process=row.process,
        rank=row.rank,
        node=row.node,
        metric=row.metric,
        attributes=row.attributes,
        window_ns=row.window_ns,
        position=row.position,
        count=row.count,
        sum=row.sum,
        sumsq=row.sumsq,
        min=row.min,
        max=row.max,
        first=row.first,
        first_ns=row.first_ns,
        last=row.last,
        last_ns=row.last_ns,
        nonfinite=row.nonfinite,
        step_min=row.step_min,
        step_max=row.step_max,
    )


def _record(row: Any) -> model.Rollup:
    there = row.HasField
    return model.Rollup(
        tenant=row.tenant,
        run=row.run,
        process=row.process,
        rank=row.rank if there("rank") else None,
        node=row.node,
        metric=row.metric,
        attributes=row.attributes,
        window_ns=row.window_ns,
        position=row.position,
        count=row.count,
        sum=row.sum,
        sumsq=row.sumsq,
        min=row.min if there("min") else None,
        max=row.max if there("max") else None,
        first=row.first if there("first") else None,
        first_ns=row.first_ns,
        last=row.last if there("last") else None,
        last_ns=row.last_ns,
        nonfinite=row.nonfinite,
        step_min=row.step_min if there("step_min") else None,
        step_max=row.step_max if there("step_max") else None,
    )
