"""Keeps the observations of one log in bounded room: equal ones are counted, what training survived is forgotten first."""

from collections import deque
from typing import Final, TypeAlias

from firstfault_server.core.cause.course import Course
from firstfault_server.core.cause.log_summary import LogSummary, Seen

MOST_SEEN: Final = 4000
"""Observations kept of one log; later ones are counted only."""
MOST_ALIKE: Final = 8
"""Observations kept per stream and pattern."""

Key: TypeAlias = tuple[str, str]
"""Rank or stream, and attempt with what the observation is: those with one key are alike."""


class Kept:
    """The observations; what finds no room is counted in the summary."""

    def __init__(self, summary: LogSummary, course: Course) -> None:
        self._summary = summary
        self._course = course
        self._kept: dict[int, tuple[Seen, Key]] = {}
        """By order, each with the key under which later ones like it are counted."""
        self._alike: dict[Key, Seen] = {}
        self._pending: list[Seen] = []
        """Since the last progress or restart."""
        self._survived: deque[Seen] = deque()
        """What may be forgotten when there is no room, the first survived first."""
        self.full = False
        """Nothing more can be kept before training goes on: exceptions are counted, and only lines are read."""
        self._order = 0

    def __bool__(self) -> bool:
        return bool(self._kept)

    def seen(self) -> list[Seen]:
        """All observations in the order of the log."""
        return sorted((seen for seen, _ in self._kept.values()), key=lambda seen: (seen.line, seen.order))

    def counted(self, key: Key) -> Seen | None:
        """The kept exception that stands for one more like it, whatever its message says, having counted it; None: none does."""
        known = self._alike.get(key)
        if known is None or known.survived:
            return None
        known.count += 1
        return known

    def repeats(self, key: Key, first: int, last: int, *, exception: bool) -> bool:
        """Whether what lines `first` to `last` say needs no room of its own, because one like it is kept and counts it."""
        known = self._alike.get(key)
        if known is None:
            return False
        known.count += 1
        if known.survived:
            # Survived before and here again: it counts from now on.
            known.survived, known.line, known.last_line, known.step = 0, first, last, self._course.step()
            self._pending.append(known)
            return True
        if exception or known.count > MOST_ALIKE:
            self._summary.dropped += not exception
            return True
        return False

    def has_room(self) -> bool:
        """Whether one more can be kept; where not, it is counted as dropped."""
        if len(self._kept) >= MOST_SEEN and not self._make_room():
            self._summary.dropped += 1
            self.full = True
            return False
        return True

    def add(self, key: Key, seen: Seen) -> None:
        """Keep an observation for which there is room."""
        seen.order = self._order
        self._order += 1
        self._alike.setdefault(key, seen)
        self._kept[seen.order] = (seen, key)
        self._pending.append(seen)

    def new_attempt(self) -> None:
        """What came so far was not survived."""
        self._pending = []

    def survive(self, number: int) -> None:
        """Training went on, as line `number` says: what came since it last did is survived."""
        for seen in self._pending:
            seen.survived = number
        self._survived += self._pending
        self.full = self.full and not self._survived
        self._pending = []

    def _make_room(self) -> bool:
        """Forget an observation that training survived; False when there is none."""
        while self._survived:
            seen = self._survived.popleft()
            # It may have come again since, or be gone already.
            if seen.survived and (kept := self._kept.pop(seen.order, None)) is not None:
                if self._alike.get(kept[1]) is seen:
                    del self._alike[kept[1]]
                return True
        return False
