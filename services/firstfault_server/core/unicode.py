"""Escapes text that is not Unicode (lone surrogates), which no codec or database takes."""

from typing import Any, TypeVar

import msgspec

RecordT = TypeVar("RecordT", bound=msgspec.Struct)


def escaped(record: RecordT) -> RecordT:
    """The record with every lone surrogate in it written as `\\udXXX`."""
    return msgspec.convert(_escaped(msgspec.to_builtins(record)), type(record))


def _escaped(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {_escaped(key): _escaped(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_escaped(inner) for inner in value]
    return value
