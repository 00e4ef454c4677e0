"""Jumps of receive time: the service was away, and nobody is silent because of it.

Flink calls a function for one key at a time, so a jump is noticed once by whoever is called first, remembered, and applied to each
key before that key's next call. To notice a jump across a restart there must be somebody who knew the time before: clock keys, at
least one in each instance whatever the parallelism, that are called every second and keep in their state the time reached.
"""

from typing import Final

import msgspec

from firstfault_server.core.model import SECOND_NS
from firstfault_server.detect.rules import HOLE_NS

MOST: Final = 32
"""Holes remembered; older ones were passed by every key long ago, since runs are called at least once in their retention."""


class Hole(msgspec.Struct, frozen=True, array_like=True):
    """Receive times before and after a jump."""

    before_ns: int
    after_ns: int

    @property
    def length_ns(self) -> int:
        """By how much receive time jumped."""
        return self.after_ns - self.before_ns


class ClockState(msgspec.Struct, array_like=True):
    """What a clock key keeps."""

    reached_ns: int
    holes: list[Hole] = []


class Holes:
    """The holes that one instance of a stage knows, oldest first."""

    def __init__(self) -> None:
        self.known: list[Hole] = []
        self.reached_ns = 0
        """Receive time reached, 0 before the first watermark."""
        self._first_ns = 0
        self._restored = False

    def see(self, reached_ns: int) -> None:
        """The log has reached a time."""
        if reached_ns <= self.reached_ns:
            return
        if not self.reached_ns:
            self._first_ns = reached_ns
        elif reached_ns - self.reached_ns > HOLE_NS:
            self._add(Hole(self.reached_ns, reached_ns))
        self.reached_ns = reached_ns

    def restore(self, kept: ClockState | None) -> None:
        """What a clock key of this instance had kept; only the first one after a start tells something new."""
        if self._restored or not self.reached_ns:
            return
        self._restored = True
        if kept is None:
            return
        for hole in kept.holes:
            self._add(hole)
        if kept.reached_ns and self._first_ns - kept.reached_ns > HOLE_NS:
            self._add(Hole(kept.reached_ns, self._first_ns))

    def kept(self) -> ClockState:
        """For the state of a clock key."""
        return ClockState(self.reached_ns, self.known)

    def since(self, mark_ns: int) -> list[Hole]:
        """Holes that a key has not passed which had passed all up to `mark_ns`."""
        if not self.known or self.known[-1].after_ns <= mark_ns:
            return []
        return [hole for hole in self.known if hole.after_ns > mark_ns]

    def swallows(self, second: int) -> bool:
        """Whether a second lies in a hole, and later than what is still settled as of before it."""
        now_ns = second * SECOND_NS
        return any(hole.before_ns // SECOND_NS + 1 < second and now_ns <= hole.after_ns for hole in self.known)

    def _add(self, hole: Hole) -> None:
        if hole not in self.known:
            self.known = sorted([*self.known, hole], key=lambda one: one.after_ns)[-MOST:]
