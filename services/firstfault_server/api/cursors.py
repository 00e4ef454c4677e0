"""Opaque cursors: where the next page of a list starts, signed, and bound to the list and its filters."""

import base64
import binascii
import hashlib
import hmac
from typing import Any, Final

import msgspec

_SIGNATURE_BYTES: Final = 16
_MAX_LENGTH: Final = 2048


class CursorError(ValueError):
    """The cursor is not one of this list with these filters."""


class Position(msgspec.Struct, frozen=True, array_like=True):
    """What a cursor carries: the keyset position, and the time range that `period` meant on the first page."""

    key: list[Any]
    since_ns: int | None
    until_ns: int | None


def encode(secret: bytes, bound_to: str, position: Position) -> str:
    """Cursor text for a position in the list that `bound_to` describes."""
    body = msgspec.json.encode(position)
    return base64.urlsafe_b64encode(_sign(secret, bound_to, body) + body).decode("ascii").rstrip("=")


def decode(secret: bytes, bound_to: str, cursor: str) -> Position:
    """Position of a cursor. Raises CursorError."""
    if len(cursor) > _MAX_LENGTH or not cursor.isascii():
        raise CursorError("the cursor is not one that this service gave out")
    try:
        raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
    except binascii.Error as error:
        raise CursorError("the cursor is not one that this service gave out") from error
    signature, body = raw[:_SIGNATURE_BYTES], raw[_SIGNATURE_BYTES:]
    if not hmac.compare_digest(signature, _sign(secret, bound_to, body)):
        raise CursorError("the cursor belongs to another list or to other filters; start again without it")
    return msgspec.json.decode(body, type=Position)


def _sign(secret: bytes, bound_to: str, body: bytes) -> bytes:
    message = len(bound_to).to_bytes(4, "big") + bound_to.encode("utf-8", "surrogatepass") + body
    return hmac.new(secret, message, hashlib.sha256).digest()[:_SIGNATURE_BYTES]
