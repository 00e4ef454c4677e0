"""Makes a record or state in which every field has a value of its own, other than its default; the same one each time."""

import itertools
from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec
from msgspec import inspect

StructT = TypeVar("StructT")


def filled(kind: type[StructT]) -> StructT:
    """An instance with all of its fields, and one of each type that a list or map can hold."""
    made: StructT = _value(inspect.type_info(kind), None, "", itertools.count(1))
    return made


def _value(kind: inspect.Type, default: Any, name: str, numbers: Iterator[int]) -> Any:
    match kind:
        case inspect.Metadata():
            return _value(kind.type, default, name, numbers)
        case inspect.UnionType():
            return _value(next(each for each in kind.types if not isinstance(each, inspect.NoneType)), default, name, numbers)
        case inspect.StructType():
            values = {field.name: _value(field.type, _default(field), field.name, numbers) for field in kind.fields}
            if kind.array_like:
                # Neighbours that are alike could change places unseen.
                values |= {name: bool(place % 2) for place, name in enumerate(values) if isinstance(values[name], bool)}
            return kind.cls(**values)
        case inspect.LiteralType():
            return next(each for each in kind.values if each != default)
        case inspect.ListType() | inspect.VarTupleType() | inspect.SetType():
            items = [_value(each, None, name, numbers) for each in _each(kind.item_type)]
            return {inspect.ListType: list, inspect.VarTupleType: tuple, inspect.SetType: set}[type(kind)](items)
        case inspect.TupleType():
            return tuple(_value(each, None, name, numbers) for each in kind.item_types)
        case inspect.DictType():
            return {_value(kind.key_type, None, name, numbers): _value(each, None, name, numbers) for each in _each(kind.value_type)}
    return _scalar(kind, default, name, next(numbers))


def _scalar(kind: inspect.Type, default: Any, name: str, number: int) -> Any:
    match kind:
        case inspect.BoolType():
            return default is not True
        case inspect.IntType():
            return number
        case inspect.FloatType():
            return number + 0.5
        case inspect.StrType():
            return f"{name} {number}"
        case inspect.BytesType():
            return f"{name} {number}".encode()
    raise TypeError(f"{name}: nothing is known about {kind}")


def _each(kind: inspect.Type) -> Iterator[inspect.Type]:
    """The types that an item can have, all but None."""
    if isinstance(kind, inspect.Metadata):
        yield from _each(kind.type)
    elif isinstance(kind, inspect.UnionType):
        for each in kind.types:
            yield from _each(each)
    elif not isinstance(kind, inspect.NoneType):
        yield kind


def _default(field: inspect.Field) -> Any:
    return None if field.default is msgspec.NODEFAULT else field.default
