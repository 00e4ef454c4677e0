"""Values of OTLP/JSON, read forgivingly into protobuf: attributes, numbers, times, ids."""

import base64
import binascii
import math
from typing import Any, Final

from opentelemetry.proto.common.v1.common_pb2 import AnyValue

_WORDS: Final = {"nan": math.nan, "infinity": math.inf, "inf": math.inf, "-infinity": -math.inf, "-inf": -math.inf}
_DEEPEST: Final = 16
_INT64: Final = range(-(1 << 63), 1 << 63)


class Misfit(ValueError):
    """One record cannot be used; the message is the reason."""


def real(value: Any) -> float:
    """A double: number, numeric string, or one of the words for NaN and the infinities."""
    if isinstance(value, float):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            return math.inf if value > 0 else -math.inf
    if isinstance(value, str):
        word = value.strip().lower()
        try:
            return _WORDS[word] if word in _WORDS else float(word)
        except ValueError:
            pass
    raise Misfit("a value is not a number")


def whole(value: Any, name: str) -> int:
    """A whole number: int, integral float, or such a string."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and len(value) <= 40:
        try:
            return int(value)
        except ValueError:
            pass
    elif isinstance(value, float) and value.is_integer():
        return int(value)
    raise Misfit(f"{name} is not a whole number")


def nanoseconds(value: Any) -> int:
    """A time; 0 (which decoding replaces by the receive time) when it is absent or does not fit."""
    if type(value) is str and value.isdigit() and len(value) < 20:
        return int(value)
    if value is None:
        return 0
    time = whole(value, "a time")
    return time if 0 <= time < 1 << 64 else 0


def identifier(value: Any, size: int) -> bytes:
    """A trace or span id from hexadecimal text; empty when it is none."""
    if not isinstance(value, str) or len(value) != 2 * size:
        return b""
    try:
        return bytes.fromhex(value)
    except ValueError:
        return b""


def flag(attributes: Any, key: str, text: str) -> None:
    """Set a string attribute."""
    pair = attributes.add()
    pair.key, pair.value.string_value = key, text


class Reader:
    """Reads the texts and attributes of one record, and remembers what had to be mended."""

    __slots__ = ("mended",)

    def __init__(self) -> None:
        self.mended: set[str] = set()

    def text(self, value: Any) -> str:
        """A string; other scalars as text, absent as empty, undecodable parts as escapes."""
        if value is None:
            return ""
        if not isinstance(value, str):
            self.mended.add("type")
            return str(value)[:1024]
        if value.isascii():
            return value
        try:
            value.encode()
        except UnicodeEncodeError:
            self.mended.add("text")
            return value.encode("utf-8", "backslashreplace").decode()
        return value

    def attributes(self, pairs: Any, out: Any) -> None:
        """Fill a repeated KeyValue; pairs that are none are left out."""
        if pairs is None:
            return
        if not isinstance(pairs, list):
            self.mended.add("attributes")
            return
        for pair in pairs:
            key = pair.get("key") if isinstance(pair, dict) else None
            if not isinstance(key, str) or not key:
                self.mended.add("attributes")
                continue
            made = out.add()
            made.key = self.text(key)
            self.value(pair.get("value"), made.value)

    def value(self, value: Any, out: AnyValue, depth: int = 0) -> None:
        """Fill an AnyValue; a bare scalar is taken as what it is, anything else unknown stays empty."""
        if not isinstance(value, dict):
            if value is not None:
                self.mended.add("type")
                self._bare(value, out)
            return
        if "stringValue" in value:
            out.string_value = self.text(value["stringValue"])
        elif "intValue" in value:
            self._whole(value["intValue"], out)
        elif "doubleValue" in value:
            try:
                out.double_value = real(value["doubleValue"])
            except Misfit:
                self.mended.add("type")
                out.string_value = self.text(str(value["doubleValue"])[:1024])
        elif "boolValue" in value:
            given = value["boolValue"]
            out.bool_value = given if isinstance(given, bool) else str(given).strip().lower() in ("true", "1")
        elif "arrayValue" in value:
            out.array_value.SetInParent()
            for item in self._listed(value["arrayValue"], depth):
                self.value(item, out.array_value.values.add(), depth + 1)
        elif "kvlistValue" in value:
            out.kvlist_value.SetInParent()
            for item in self._listed(value["kvlistValue"], depth):
                if isinstance(item, dict):
                    made = out.kvlist_value.values.add()
                    made.key = self.text(item.get("key"))
                    self.value(item.get("value"), made.value, depth + 1)
        elif "bytesValue" in value:
            try:
                out.bytes_value = base64.b64decode(value["bytesValue"])
            except (TypeError, ValueError, binascii.Error):
                self.mended.add("type")
                out.string_value = self.text(str(value["bytesValue"])[:1024])

    def _listed(self, holder: Any, depth: int) -> list[Any]:
        values = holder.get("values") if isinstance(holder, dict) else None
        if depth >= _DEEPEST or not isinstance(values, list):
            if values is not None:
                self.mended.add("type")
            return []
        return values

    def _whole(self, value: Any, out: AnyValue) -> None:
        try:
            number = whole(value, "intValue")
        except Misfit:
            self.mended.add("type")
            self._bare(value, out)
            return
        if number in _INT64:
            out.int_value = number
        else:
            self.mended.add("type")
            out.string_value = str(number)

    def _bare(self, value: Any, out: AnyValue) -> None:
        if isinstance(value, bool):
            out.bool_value = value
        elif isinstance(value, int) and value in _INT64:
            out.int_value = value
        elif isinstance(value, float):
            out.double_value = value
        else:
            out.string_value = self.text(value if isinstance(value, str) else str(value)[:1024])
