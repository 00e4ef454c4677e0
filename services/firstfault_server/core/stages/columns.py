"""Facts about the columns that the series of one batch share: a request mostly has the same times and steps for every metric."""

from operator import lt

from firstfault_server.core import model


class Spans:
    """What is known of columns that the series of one batch share, so that it is worked out once. Holds no longer than the batch."""

    def __init__(self) -> None:
        self._times: dict[int, tuple[int, int, bool]] = {}
        self._steps: dict[int, tuple[int | None, int | None]] = {}
        self._marked: set[tuple[int, int]] = set()
        self._held: list[object] = []
        """What the ids belong to: they are used again as soon as their object is gone."""

    def of(self, times_ns: list[int]) -> tuple[int, int, bool]:
        """Lowest and highest time, and whether each is later than the one before it."""
        found = self._times.get(id(times_ns))
        if found is None:
            low = high = times_ns[0]
            rising = True
            if len(times_ns) > 1:
                low, high, rising = min(times_ns), max(times_ns), all(map(lt, times_ns, times_ns[1:]))
            found = self._times[id(times_ns)] = (low, high, rising)
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

    def first_sight(self, series: model.Series) -> bool:
        """Whether no series with these times and steps was asked about before."""
        key = (id(series.times_ns), id(series.steps))
        if key in self._marked:
            return False
        self._marked.add(key)
        self._held.append((series.times_ns, series.steps))
        return True
