"""Messages with everything in them, where their closed lists are, and fields as a later version might add them."""

from collections.abc import Iterator
from typing import Any

import msgspec
from google.protobuf.message import Message
from msgspec import inspect

from firstfault_server.wire.codec import MESSAGES
from firstfault_server.wire.pb import records_pb2 as pb

Path = tuple[str, ...]
UNKNOWN_FIELDS = {
    "number": b"\xf8\x07\x05",  # field 127 as a varint, as bytes, as four and eight bytes
    "text": b"\xfa\x07\x05later",
    "message": b"\xfa\x07\x04\x0a\x02hi",
    "float": b"\xfd\x07\x00\x00\x80?",
    "double": b"\xf9\x07\x00\x00\x00\x00\x00\x00\xf0?",
}


# ---- messages --------------------------------------------------------------------------------------------------------------------


def full(kind: type[msgspec.Struct]) -> Any:
    """The message of a record with all of its fields, and one of whatever it has several of."""
    message = filled(MESSAGES[kind].DESCRIPTOR)
    for closed in closed_lists(inspect.type_info(kind)):
        put(message, closed.path, closed.values[0])
    return message


def filled(descriptor: Any, path: Path = ()) -> Any:
    """A message with all fields; an attribute in a list is no list."""
    message: Any = getattr(pb, descriptor.name)()
    for field in descriptor.fields:
        kept: Any = getattr(message, field.name)
        inside = (*path, field.name)
        if is_map(field):
            value = field.message_type.fields_by_name["value"]
            if value.message_type is None:
                kept["key"] = sample(value)
            else:
                kept["key"].CopyFrom(filled(value.message_type, inside))
        elif field.message_type is None:
            setattr(message, field.name, sample(field)) if not field.is_repeated else kept.append(sample(field))
        elif field.name not in path:
            (kept.add() if field.is_repeated else kept).CopyFrom(filled(field.message_type, inside))
    return message


def is_map(field: Any) -> bool:
    """Whether a field holds values by name."""
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


def sample(field: Any) -> Any:
    """A value of the type of a field."""
    samples = {field.TYPE_STRING: "text", field.TYPE_INT64: 7, field.TYPE_DOUBLE: 0.5, field.TYPE_BOOL: True, field.TYPE_BYTES: b"bytes"}
    return samples[field.type]


def put(message: Message, path: Path, value: Any) -> None:
    """Set a field wherever the path leads."""
    for inner in reached(message, path[:-1]):
        setattr(inner, path[-1], value)


def reached(message: Any, path: Path) -> Iterator[Any]:
    """The messages where a path leads."""
    if not path:
        yield message
        return
    for inner in several(getattr(message, path[0])):
        yield from reached(inner, path[1:])


def several(value: Any) -> Iterator[Any]:
    """What a field holds: one message, a list of them, a map to them."""
    if isinstance(value, Message):
        yield value
    elif hasattr(value, "values"):
        yield from value.values()
    else:
        yield from value


def nested(descriptor: Any, path: Path = ()) -> Iterator[Path]:
    """Where messages are in a message, itself included."""
    yield path
    for field in descriptor.fields:
        inner = field.message_type.fields_by_name["value"].message_type if is_map(field) else field.message_type
        if inner is not None and field.name not in path:
            yield from nested(inner, (*path, field.name))


# ---- closed lists ----------------------------------------------------------------------------------------------------------------


class Closed(msgspec.Struct, frozen=True):
    """A closed list in a record: where, what is in it, and what a value counts as that is not."""

    path: Path
    values: tuple[Any, ...]
    extra: Any


def closed_lists(kind: inspect.Type, path: Path = (), extra: Any = None) -> Iterator[Closed]:
    """All of a type, however deep."""
    match kind:
        case inspect.Metadata():
            yield from closed_lists(kind.type, path, kind.extra)
        case inspect.LiteralType():
            yield Closed(path, kind.values, extra)
        case inspect.StructType():
            for field in kind.fields:
                yield from closed_lists(field.type, (*path, field.encode_name))
        case inspect.UnionType():
            for each in kind.types:
                yield from closed_lists(each, path)
        case inspect.ListType() | inspect.VarTupleType():
            yield from closed_lists(kind.item_type, path)
        case inspect.DictType():
            yield from closed_lists(kind.value_type, path)
