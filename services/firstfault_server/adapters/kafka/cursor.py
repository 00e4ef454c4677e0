"""Positions in a topic: of one record, and with it how far every other partition was read.

Text form: `PARTITION-OFFSET` of the record in fixed-width hexadecimal, then the other partitions that were read from in the same form,
each after a `/`. Positions of one partition therefore sort as strings in the order of its records, and any position is enough to
read on from.
"""

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from firstfault_server.wire.log_record import place

SEPARATOR: Final = "/"


class Cursor(msgspec.Struct, frozen=True):
    """Offset of the last record taken from each partition."""

    offsets: Mapping[int, int] = {}
    partition: int | None = None
    """Whose record was taken last."""

    @classmethod
    def parse(cls, text: str | None) -> "Cursor":
        """Raises ValueError for text that is not a position."""
        if text is None:
            return cls()
        pairs = [_pair(part) for part in text.split(SEPARATOR)]
        if len({partition for partition, _ in pairs}) != len(pairs):
            raise ValueError(f"not a position of this log: {text[:100]!r}")
        return cls(dict(pairs), pairs[0][0])

    def after(self, partition: int, offset: int) -> "Cursor":
        """The cursor once this record was taken."""
        return Cursor({**self.offsets, partition: offset}, partition)

    def next_offset(self, partition: int) -> int | None:
        """Where reading goes on; None: from the oldest kept."""
        taken = self.offsets.get(partition)
        return None if taken is None else taken + 1

    def __str__(self) -> str:
        return SEPARATOR.join(self._parts())

    def _parts(self) -> Iterator[str]:
        for partition in sorted(self.offsets, key=lambda each: (each != self.partition, each)):
            yield place(partition, self.offsets[partition])


def _pair(text: str) -> tuple[int, int]:
    partition, _, offset = text.partition("-")
    try:
        return int(partition, 16), int(offset, 16)
    except ValueError:
        raise ValueError(f"not a position of this log: {text[:100]!r}") from None
