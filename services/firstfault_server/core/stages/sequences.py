"""Batch numbers seen, so that a batch delivered twice counts once although spooled ones come late."""

import msgspec

_MOST_INTERVALS = 256


class Seen(msgspec.Struct, array_like=True):
    """Numbers of one sender as disjoint, ascending intervals [first, last]."""

    intervals: list[tuple[int, int]] = []

    def add(self, number: int) -> bool:
        """True when the number is new. Beyond 256 gaps the oldest interval is forgotten: its batches would count as new, never as seen."""
        spans = self.intervals
        at = len(spans)
        while at and spans[at - 1][0] > number:
            at -= 1
        if at and number <= spans[at - 1][1]:
            return False
        joins_before = at > 0 and spans[at - 1][1] == number - 1
        joins_after = at < len(spans) and spans[at][0] == number + 1
        if joins_before and joins_after:
            spans[at - 1 : at + 1] = [(spans[at - 1][0], spans[at][1])]
        elif joins_before:
            spans[at - 1] = (spans[at - 1][0], number)
        elif joins_after:
            spans[at] = (number, spans[at][1])
        else:
            spans.insert(at, (number, number))
            if len(spans) > _MOST_INTERVALS:
                del spans[0]
        return True
