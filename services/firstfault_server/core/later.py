"""Reads records that a later version wrote: a value of a closed list that this version does not know costs the record nothing else.

What it counts as instead is said where the list is (`model.base.otherwise`). A list that says nothing takes its own values only.
"""

from collections.abc import Mapping
from typing import Any, Final, TypeVar

import msgspec
from msgspec import inspect

from firstfault_server.core.model.base import OTHERWISE

RecordT = TypeVar("RecordT")
_LEFT_OUT: Final = object()


def convert(value: Any, kind: type[RecordT]) -> RecordT:
    """The record that builtins stand for. Raises msgspec.ValidationError."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError:
        # Only records that cannot be read otherwise pay for the walk.
        return msgspec.convert(_known(value, inspect.type_info(kind)), kind)


def decode(data: bytes | memoryview, kind: type[RecordT]) -> RecordT:
    """The record of msgpack, its structs as maps. Raises msgspec.DecodeError."""
    try:
        return msgspec.msgpack.decode(data, type=kind)
    except msgspec.ValidationError:
        return msgspec.convert(_known(msgspec.msgpack.decode(data), inspect.type_info(kind)), kind)


def _known(value: Any, kind: inspect.Type) -> Any:
    """The value with what this version knows in place of what it does not."""
    match kind:
        case inspect.Metadata(type=inspect.LiteralType(values=values), extra=Mapping() as extra) if OTHERWISE in extra:
            if value in values:
                return value
            return _LEFT_OUT if extra[OTHERWISE] is None else extra[OTHERWISE]
        case inspect.StructType(fields=fields) if isinstance(value, dict):
            kinds = {field.encode_name: field.type for field in fields}
            return {name: _known(each, kinds[name]) if name in kinds else each for name, each in value.items()}
        case inspect.ListType(item_type=item) | inspect.VarTupleType(item_type=item) if isinstance(value, list):
            return [known for each in value if (known := _known(each, item)) is not _LEFT_OUT]
        case inspect.DictType(value_type=item) if isinstance(value, dict):
            return {name: _known(each, item) for name, each in value.items()}
        case inspect.UnionType(types=kinds) if value is not None and len(some := [one for one in kinds if one != inspect.NoneType()]) == 1:
            return _known(value, some[0])
    return value
