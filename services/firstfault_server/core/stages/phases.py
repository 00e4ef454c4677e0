"""The phase a process is in: begin and end records of nested phases, replayed in event time whatever order they came in."""

import msgspec

_KEPT = 64


class Mark(msgspec.Struct, array_like=True, order=True, frozen=True):
    """One phase record. Ordered by event time, then by its place in the sender's stream."""

    time_ns: int
    place: int
    begin: bool
    name: str
    received_ns: int
    expect_s: float | None = None


class Phases(msgspec.Struct, array_like=True):
    """Open phases before the marks kept, and the newest marks in order."""

    base: list[Mark] = []
    marks: list[Mark] = []

    def add(self, mark: Mark) -> None:
        """Take a mark; one older than all that is kept no longer changes anything."""
        marks = self.marks
        if mark in marks:
            return
        at = len(marks)
        while at and marks[at - 1] > mark:
            at -= 1
        marks.insert(at, mark)
        if len(marks) > _KEPT:
            self.base = _open(self.base, marks[: _KEPT // 2])
            del marks[: _KEPT // 2]

    def current(self) -> Mark | None:
        """The innermost open phase."""
        stack = _open(self.base, self.marks)
        return stack[-1] if stack else None

    def moved_ns(self) -> int:
        """Receive time of the newest mark, 0 without one."""
        return self.marks[-1].received_ns if self.marks else 0


def _open(base: list[Mark], marks: list[Mark]) -> list[Mark]:
    stack = list(base)
    for mark in marks:
        if mark.begin:
            stack.append(mark)
        else:
            for at in range(len(stack) - 1, -1, -1):
                if stack[at].name == mark.name:
                    # What was opened inside and never closed (an exception left it) ends with it.
                    del stack[at:]
                    break
    return stack[-_KEPT:]
