"""OpenTelemetry attribute values as plain Python values, bounded in size, and readings of them that forgive a wrong type."""

import base64
import math
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import orjson
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from firstfault import conventions as names
from firstfault_server.core.model import Attribute, Scalar

LARGEST_TEXT: Final = 128 << 10
"""Characters of one value; a traceback is at most half of it by the conventions."""
LARGEST_RECORD: Final = 1 << 20
"""Characters of all values of one record together."""
MOST_ATTRIBUTES: Final = 256
MOST_ITEMS: Final = 1024
LONGEST_KEY: Final = 256
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Budget:
    """Characters a record may still hold; remembers whether anything was cut."""

    __slots__ = ("cut", "left")

    def __init__(self, left: int = LARGEST_RECORD) -> None:
        self.left, self.cut = left, False

    def text(self, value: str) -> str:
        """The text, or its head when it is too long."""
        allowed = min(LARGEST_TEXT, self.left)
        if len(value) > allowed:
            self.cut = True
            value = value[:allowed]
        self.left -= len(value)
        return value


def reserved(key: str) -> bool:
    """Whether only the service may set it."""
    return key.startswith(names.RESERVED_PREFIXES)


def plain(value: AnyValue) -> Any:
    """An AnyValue as JSON-ready builtins; bytes as base64 text; an empty value as None."""
    kind = value.WhichOneof("value")
    if kind is None:
        return None
    if kind == "array_value":
        return [plain(v) for v in value.array_value.values[:MOST_ITEMS]]
    if kind == "kvlist_value":
        return {kv.key: plain(kv.value) for kv in value.kvlist_value.values[:MOST_ITEMS]}
    if kind == "bytes_value":
        return base64.b64encode(value.bytes_value).decode()
    return getattr(value, kind)


def attribute(value: AnyValue, budget: Budget) -> Attribute | None:
    """An attribute as the model holds it: a scalar or a list of scalars; anything nested becomes JSON text. None when empty."""
    kind = value.WhichOneof("value")
    if kind == "string_value":
        return budget.text(value.string_value)
    if kind == "int_value":
        return int(value.int_value)
    if kind == "double_value":
        return float(value.double_value)
    if kind == "bool_value":
        return bool(value.bool_value)
    if kind == "array_value":
        if len(value.array_value.values) > MOST_ITEMS:
            budget.cut = True
        return [_scalar(plain(v), budget) for v in value.array_value.values[:MOST_ITEMS]]
    if kind is None:
        return None
    return _scalar(plain(value), budget)


def _scalar(value: Any, budget: Budget) -> Scalar:
    if isinstance(value, str):
        return budget.text(value)
    if isinstance(value, bool | int | float):
        return value
    return budget.text("" if value is None else text(value))


def text(value: Any) -> str:
    """A value as text for people: strings as they are, the rest as JSON."""
    return value if isinstance(value, str) else orjson.dumps(value, option=orjson.OPT_PASSTHROUGH_SUBCLASS, default=str).decode()


def attributes(pairs: Iterable[KeyValue], budget: Budget) -> dict[str, Attribute]:
    """Key-value pairs as a dict: reserved keys and empty values left out, the last of equal keys wins, bounded in number and size."""
    found: dict[str, Attribute] = {}
    for pair in pairs:
        key = pair.key
        if not key or reserved(key):
            continue
        if len(found) >= MOST_ATTRIBUTES or len(key) > LONGEST_KEY:
            budget.cut = True
            continue
        value = attribute(pair.value, budget)
        if value is not None:
            found[key] = value
    return found


def conform(found: dict[str, Attribute]) -> bool:
    """Give attributes of the conventions the type they are to have; one that cannot have it goes. Whether anything had to change."""
    changed = False
    for key in names.ATTRIBUTE_TYPES.keys() & found.keys():
        sent = found[key]
        value = _CONFORM[names.ATTRIBUTE_TYPES[key]](sent)
        if value is None:
            del found[key]
        elif type(value) is not type(sent) or value != sent:
            found[key] = value
        else:
            continue
        changed = True
    return changed


def _integer(value: Attribute) -> int | None:
    if isinstance(value, str):
        digits = value.strip()
        unsigned = digits[1:] if digits[:1] == "-" else digits
        return int(digits) if unsigned.isascii() and unsigned.isdigit() and len(unsigned) <= 18 else None
    if isinstance(value, bool | list) or value != value or abs(value) >= 1 << 63 or value != int(value):
        return None
    return int(value)


def _number(value: Attribute) -> float | None:
    if isinstance(value, bool | list):
        return None
    try:
        number = float(value)
    except ValueError:
        return None
    return None if math.isnan(number) else number


def _bool(value: Attribute) -> bool | None:
    if isinstance(value, str):
        return {"true": True, "1": True, "false": False, "0": False}.get(value.strip().lower())
    return None if isinstance(value, list) else bool(value)


def _text(value: Attribute) -> str | None:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def _texts(value: Attribute) -> list[Scalar] | None:
    return [str(v) for v in value] if isinstance(value, list) else [str(value)]


def _integers(value: Attribute) -> list[Scalar] | None:
    items: list[Scalar] = value if isinstance(value, list) else [value]
    return [number for item in items if (number := _integer(item)) is not None]


_CONFORM: Final[dict[str, Callable[[Attribute], Attribute | None]]] = {
    "int": _integer,
    "double": _number,
    "bool": _bool,
    "string": _text,
    "string[]": _texts,
    "int[]": _integers,
}


def whole_number(value: Attribute | None) -> int | None:
    """A count or an index: from int, integral float, or digits in a string; None for anything else, negative or beyond 2**53."""
    if isinstance(value, str):
        digits = value.strip()
        if not digits.isascii() or not digits.isdigit() or len(digits) > 16:
            return None
        value = int(digits)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if value != value or not 0 <= value <= 1 << 53 or value != int(value):
        return None
    return int(value)


def string(value: Attribute | None) -> str:
    """A name: strings stripped of surrounding blanks, numbers as text, lists joined by blanks; empty when there is none."""
    if value is None:
        return ""
    if isinstance(value, list):
        return " ".join(str(v) for v in value)
    return value.strip() if isinstance(value, str) else str(value)


def strings(value: Attribute | None) -> tuple[str, ...]:
    """A list of names; a lone string counts as a list of one."""
    if value is None:
        return ()
    return tuple(str(v) for v in value) if isinstance(value, list) else (str(value),)


def moment(value: Attribute | None) -> int | None:
    """Nanoseconds since the epoch from RFC 3339 text or a number of nanoseconds; None when it is neither."""
    number = whole_number(value) if not isinstance(value, float) else None
    if number is not None or not isinstance(value, str):
        return number
    try:
        parsed = datetime.fromisoformat(value.strip())
    except ValueError:
        return None
    if parsed.tzinfo is None:
        parsed = parsed.replace(tzinfo=UTC)
    return (parsed - _EPOCH) // timedelta(microseconds=1) * 1000


def first(found: Mapping[str, Attribute], *keys: str) -> Attribute | None:
    """Value of the first key that is there."""
    for key in keys:
        if key in found:
            return found[key]
    return None
