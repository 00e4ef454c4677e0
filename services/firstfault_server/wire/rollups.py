"""Rollups as protobuf, many in a message: column by column, since there are as many of them as of anything else."""

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

import msgspec
from google.protobuf.message import DecodeError

from firstfault_server.core import model
from firstfault_server.wire import codec
from firstfault_server.wire.pb import records_pb2 as pb
from firstfault_server.wire.unreadable import Unreadable

MOST_BYTES: Final = 1 << 20
"""About how large a message may become; one rollup of its own may be larger."""
NUMBERS_BYTES: Final = 160
"""What a rollup takes at most besides its texts."""

_SHARED: Final = ("tenant", "run", "process", "rank", "node", "position")
_place = {field.name: place for place, field in enumerate(msgspec.structs.fields(model.Rollup))}.__getitem__
_SHARED_PLACES: Final = tuple(map(_place, _SHARED))
_OWN: Final = tuple(field.name for field in msgspec.structs.fields(model.Rollup) if field.name not in _SHARED)
_OWN_PLACES: Final = tuple(map(_place, _OWN))
_NUMBERS: Final = ("min", "max", "first", "last")
"""Not a number where there is none."""
_STEPS: Final = ("step_min", "step_max")
"""One more than the step, 0 where there is none."""
_LEFT_OUT: Final = dict.fromkeys(_OWN, 0) | {"attributes": "", "sum": 0.0, "sumsq": 0.0} | dict.fromkeys(_NUMBERS, math.nan)
"""What a column that is left out stands for."""


def encode_rollups(rollups: Iterable[model.Rollup]) -> list[bytes]:
    """As few messages as hold them, in their order."""
    return [_batch([*map(msgspec.structs.astuple, part)]).SerializeToString() for part in _parts(rollups)]


def decode_rollups(data: bytes) -> list[model.Rollup]:
    """The rollups of a message. Raises Unreadable."""
    try:
        batch = pb.RollupBatch.FromString(data)
    except DecodeError as error:
        raise Unreadable(f"not a RollupBatch: {error}") from error
    earlier = [codec.decode(model.Rollup, row.SerializeToString()) for row in batch.rollups]
    return [*earlier, *[row for columns in batch.columns for row in _records(columns)]]


def _parts(rollups: Iterable[model.Rollup]) -> Iterator[Sequence[model.Rollup]]:
    part: list[model.Rollup] = []
    size = 0
    for row in rollups:
        length = NUMBERS_BYTES + len(row.metric) + 2 * len(row.attributes)
        if part and size + length > MOST_BYTES:
            yield part
            part, size = [], 0
        part.append(row)
        size += length
    if part:
        yield part


def _batch(rows: list[tuple[Any, ...]]) -> pb.RollupBatch:
    """Fields of rollups in the order of their type; neighbours that share a process and position share a message."""
    batch = pb.RollupBatch()
    columns = [*zip(*rows, strict=True)]
    if all([columns[place].count(columns[place][0]) == len(rows) for place in _SHARED_PLACES]):
        _add(batch, columns)
    else:
        for _, group in groupby(rows, itemgetter(*_SHARED_PLACES)):
            _add(batch, [*zip(*group, strict=True)])
    return batch


def _add(batch: pb.RollupBatch, columns: list[tuple[Any, ...]]) -> None:
    shared = {name: columns[place][0] for name, place in zip(_SHARED, _SHARED_PLACES, strict=True)}
    own = dict(zip(_OWN, [columns[place] for place in _OWN_PLACES], strict=True))
    for name in ("attributes", "nonfinite"):
        if not any(own[name]):
            del own[name]
    for name in _NUMBERS:
        if None in own[name]:
            own[name] = tuple([math.nan if value is None else value for value in own[name]])
    for name in _STEPS:
        own[name] = tuple([0 if step is None else step + 1 for step in own[name]])
    batch.columns.add(**shared, **own)


def _records(columns: pb.RollupColumns) -> list[model.Rollup]:
    count = len(columns.metric)
    own: dict[str, Sequence[Any]] = {}
    for name in _OWN:
        own[name] = getattr(columns, name) or [_LEFT_OUT[name]] * count
        if len(own[name]) != count:
            raise Unreadable(f"not a RollupBatch: {len(own[name])} of {name} for {count} rollups")
    for name in _NUMBERS:
        own[name] = [None if value != value else value for value in own[name]]
    for name in _STEPS:
        own[name] = [step - 1 if step else None for step in own[name]]
    shared = {name: getattr(columns, name) for name in _SHARED}
    shared["rank"] = columns.rank if columns.HasField("rank") else None
    return [model.Rollup(**shared, **dict(zip(_OWN, row, strict=True))) for row in zip(*own.values(), strict=True)]
