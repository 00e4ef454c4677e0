"""Records of the model as protobuf messages and back, for the topics of the distributed deployment.

Fields go by name: each message has exactly the fields of its record (a test holds them together). What a later version wrote is read, too:
a field that this version does not know is passed over, a value of a closed list counts as what the list says (`core.later`), and an
attribute of another kind is empty text.
"""

from collections.abc import Mapping
from typing import Any, Final, TypeVar

import msgspec
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message

from firstfault_server.core import later, model
from firstfault_server.wire.pb import records_pb2 as pb
from firstfault_server.wire.unreadable import Unreadable

MESSAGES: Final[Mapping[type[msgspec.Struct], type[Message]]] = {
    model.Rollup: pb.Rollup,
    model.Event: pb.Event,
    model.Finding: pb.Finding,
    model.Incident: pb.Incident,
    model.RunStatus: pb.RunStatus,
    model.DeadLetter: pb.DeadLetter,
}
RecordT = TypeVar("RecordT", bound=msgspec.Struct)


def encode(record: msgspec.Struct) -> bytes:
    """A record as protobuf. Raises KeyError for a kind that does not travel."""
    message = MESSAGES[type(record)]()
    _fill(message, record)
    return message.SerializeToString(deterministic=True)


def decode(kind: type[RecordT], data: bytes) -> RecordT:
    """The record of a message. Raises Unreadable."""
    try:
        message = MESSAGES[kind].FromString(data)
        return later.convert(_plain(message), kind)
    except (DecodeError, msgspec.ValidationError) as error:
        raise Unreadable(f"not a {kind.__name__}: {error}") from error


def _fill(message: Any, record: msgspec.Struct) -> None:
    for field in message.DESCRIPTOR.fields:
        value = getattr(record, field.name)
        if value is None:
            continue
        target = getattr(message, field.name)
        if _is_map(field):
            for key, item in value.items():
                if field.message_type.fields_by_name["value"].message_type is None:
                    target[key] = item
                else:
                    _attribute(target[key], item)
        elif field.is_repeated:
            if field.message_type is None:
                target.extend(value)
            else:
                for item in value:
                    _fill(target.add(), item)
        elif field.message_type is not None:
            target.SetInParent()
            _fill(target, value)
        else:
            setattr(message, field.name, value)


def _attribute(target: Any, value: model.Attribute) -> None:
    if isinstance(value, list):
        target.list.SetInParent()
        for item in value:
            _attribute(target.list.values.add(), item)
    elif isinstance(value, str):
        target.text = value
    elif isinstance(value, bool):
        target.truth = value
    elif isinstance(value, int):
        target.integer = value
    else:
        target.number = value


def _plain(message: Any) -> dict[str, Any]:
    """What was written, as builtins; an absent optional value is None, an absent message is left to the model."""
    found: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        if field.has_presence and not message.HasField(field.name):
            if field.message_type is None:
                found[field.name] = None
            continue
        value = getattr(message, field.name)
        if _is_map(field):
            scalar = field.message_type.fields_by_name["value"].message_type is None
            found[field.name] = {key: item if scalar else _value(item) for key, item in value.items()}
        elif field.is_repeated:
            found[field.name] = list(value) if field.message_type is None else [_plain(item) for item in value]
        else:
            found[field.name] = value if field.message_type is None else _plain(value)
    return found


def _value(attribute: Any) -> Any:
    kind = attribute.WhichOneof("value")
    if kind == "list":
        return [_value(item) for item in attribute.list.values]
    return "" if kind is None else getattr(attribute, kind)


def _is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)
