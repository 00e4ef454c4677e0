"""States as bytes: one version byte, then msgpack.

Named structs are maps: a new field with a default reads old states. Array structs take new fields at their end. A changed meaning
needs a new version and an upgrade here.
"""

from typing import Generic, TypeVar

import msgspec

StateT = TypeVar("StateT")

_encode = msgspec.msgpack.Encoder().encode


class StateCodec(Generic[StateT]):
    """Encoder and decoder of one stage's state."""

    def __init__(self, kind: type[StateT], version: int = 1) -> None:
        self._decoder: msgspec.msgpack.Decoder[StateT] = msgspec.msgpack.Decoder(kind)
        self._version = bytes([version])

    def encode(self, state: StateT) -> bytes:
        """Versioned msgpack."""
        return self._version + _encode(state)

    def decode(self, data: bytes) -> StateT:
        """Raises ValueError for another version, msgspec.DecodeError for bytes that are no state."""
        if data[:1] != self._version:
            raise ValueError(f"state has version {data[0] if data else None}, this code reads {self._version[0]}")
        return self._decoder.decode(memoryview(data)[1:])
