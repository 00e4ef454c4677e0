"""Facts about the columns that the series of one batch share: a request mostly has the same times and steps for every metric."""

from operator import lt

from firstfault_server.core import model


class Spans:
    """What is known of columns that the series of one batch share, so that it is worked out once. Holds no longer than the batch."""

    def __init__(self) -> None:
        self._times: dict[int, tuple[int, int, bool]] = {}
        self._steps: dict[int, tuple[int | None, int | None]] = {}
        self._marked: set[tuple[int, int]] = set()
        self._last: tuple[object, object] = (None, None)
        """What `first_sight` was asked last: neighbours mostly share it, and comparing is cheaper than a look into a set."""
        self._held: list[object] = []
        """What the ids belong to: they are used again as soon as their object is gone."""

    def of(self, times_ns: list[int]) -> tuple[int, int, bool]:
        """Lowest and highest time, and whether each is later than the one before it."""
        found = self._times.get(id(times_ns))
        if found is None:
            rising = all(map(lt, times_ns, times_ns[1:]))
            found = (times_ns[0], times_ns[-1], True) if rising else (min(times_ns), max(times_ns), False)
            self._times[id(times_ns)] = found
            self._held.append(times_ns)
        return found

    def steps(self, steps: list[int | None]) -> tuple[int | None, int | None]:
        """Lowest and highest step known, None when none is."""
        found = self._steps.get(id(steps))
        if found is None:
            known = [step for step in steps if step is not None]
            found = self._steps[id(steps)] = (min(known), max(known)) if known else (None, None)
            self._held.append(steps)
        return found

    def newest(self, series: list[model.Series]) -> int:
        """The highest time of all, 0 when there is none."""
        newest = 0
        last: list[int] | None = None
        for one in series:
            times = one.times_ns
            if times is not last and times:
                last = times
                newest = max(newest, self.of(times)[1])
        return newest

    def first_sight(self, times_ns: list[int], steps: list[int | None]) -> bool:
        """Whether these times with these steps were not asked about before."""
        last_times, last_steps = self._last
        if times_ns is last_times and steps is last_steps:
            return False
        self._last = (times_ns, steps)
        key = (id(times_ns), id(steps))
        if key in self._marked:
            return False
        self._marked.add(key)
        self._held.append((times_ns, steps))
        return True
