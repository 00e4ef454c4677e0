"""Values with the names of their fields, as JSON holds them: positions in an array say nothing about which field is meant."""

from collections.abc import Iterator
from typing import Any

import msgspec

Field = tuple[str, str]
"""Name of a struct with its module, name of a field of it."""


def named(value: Any) -> Any:
    """Structs as maps, however they travel; bytes as hexadecimal text."""
    if isinstance(value, msgspec.Struct):
        return {name: named(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, dict):
        return {str(key): named(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [named(each) for each in value]
    if isinstance(value, set):
        return sorted(named(each) for each in value)
    return value.hex() if isinstance(value, bytes) else value


def differences(found: Any, wanted: Any, where: str = "") -> Iterator[str]:
    """Where a value is not what was written; fields that it has beside those of `wanted` came later."""
    if isinstance(found, dict) and isinstance(wanted, dict):
        for name, each in wanted.items():
            if name in found:
                yield from differences(found[name], each, f"{where}.{name}")
            else:
                yield f"{where}.{name} is gone, it was {each!r}"
    elif isinstance(found, list) and isinstance(wanted, list) and len(found) == len(wanted):
        for place, (one, other) in enumerate(zip(found, wanted, strict=True)):
            yield from differences(one, other, f"{where}[{place}]")
    elif found != wanted or type(found) is not type(wanted):
        yield f"{where} is {found!r}, it was {wanted!r}"


def covered(value: Any, wanted: Any) -> Iterator[Field]:
    """Fields whose bytes were written."""
    if isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            if name in wanted:
                yield _name(type(value)), name
                yield from covered(getattr(value, name), wanted[name])
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from covered(each, wanted[str(key)])
    elif isinstance(value, list | tuple):
        for each, its in zip(value, wanted, strict=True):
            yield from covered(each, its)


def fields(kind: Any) -> Iterator[Field]:
    """All fields of a kind and of whatever it holds."""
    for inner in msgspec.inspect.multi_type_info([kind]):
        yield from _fields(inner)


def _fields(kind: msgspec.inspect.Type) -> Iterator[Field]:
    match kind:
        case msgspec.inspect.StructType():
            for field in kind.fields:
                yield _name(kind.cls), field.name
                yield from _fields(field.type)
        case msgspec.inspect.Metadata():
            yield from _fields(kind.type)
        case msgspec.inspect.UnionType():
            for each in kind.types:
                yield from _fields(each)
        case msgspec.inspect.ListType() | msgspec.inspect.VarTupleType() | msgspec.inspect.SetType():
            yield from _fields(kind.item_type)
        case msgspec.inspect.TupleType():
            for each in kind.item_types:
                yield from _fields(each)
        case msgspec.inspect.DictType():
            yield from _fields(kind.key_type)
            yield from _fields(kind.value_type)


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"
