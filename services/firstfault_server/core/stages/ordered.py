"""Points put back into their order before detectors see them: by batch number where the sender has one, by lateness where not."""

import msgspec

Run = tuple[str, list[int], list[float], list[int | None]]
"""Metric, times, values, steps."""


class Held(msgspec.Struct, array_like=True):
    """Runs of points of one batch that wait for their turn."""

    received_ns: int
    runs: list[Run]
    size: int


class Queue(msgspec.Struct, array_like=True):
    """What one numbered sender has sent: batches are released in the order of their numbers, a missing one is waited for."""

    next: int = 1
    held: dict[int, Held] = {}

    def put(self, number: int, held: Held) -> None:
        """Add a batch; one whose turn has passed is too late for alarms and is left out."""
        if number >= self.next:
            self.held[number] = held

    @property
    def gap(self) -> bool:
        """Whether a batch is missing before one that is here."""
        return bool(self.held) and max(self.held) - self.next + 1 > len(self.held)

    def ready(self, now_ns: int, lateness_ns: int, room: int) -> list[Run]:
        """Batches whose turn it is: contiguous ones at once, others when they have waited long enough or fill the room."""
        out: list[Run] = []
        while self.held:
            if self.next not in self.held:
                lowest = min(self.held)
                waited = now_ns - min(held.received_ns for held in self.held.values()) >= lateness_ns
                if not waited and sum(held.size for held in self.held.values()) <= room:
                    break
                self.next = lowest
            out += self.held.pop(self.next).runs
            self.next += 1
        return out

    def due(self, lateness_ns: int) -> int | None:
        """Receive time at which a held batch is released although one before it is missing."""
        return min(held.received_ns for held in self.held.values()) + lateness_ns if self.held else None


class Buffer(msgspec.Struct, array_like=True):
    """Points of senders without numbers: released in event-time order once nothing earlier may come any more."""

    points: list[tuple[int, str, float, int | None, int]] = []
    """Event time, metric, value, step, receive time."""
    done_ns: int = 0
    """Points up to this event time are out; earlier ones come too late."""

    def put(self, run: Run, received_ns: int) -> None:
        """Add points that are not too late."""
        metric, times, values, steps = run
        for time_ns, value, step in zip(times, values, steps, strict=True):
            if time_ns > self.done_ns:
                self.points.append((time_ns, metric, value, step, received_ns))

    def ready(self, now_ns: int, lateness_ns: int, room: int) -> list[Run]:
        """Points received longer ago than the lateness bound, and everything before them."""
        old = [time_ns for time_ns, _, _, _, received_ns in self.points if now_ns - received_ns >= lateness_ns]
        if len(self.points) > room:
            old.append(sorted(point[0] for point in self.points)[len(self.points) - room - 1])
        if not old:
            return []
        self.done_ns = max(self.done_ns, *old)
        out = sorted((point for point in self.points if point[0] <= self.done_ns), key=lambda point: (point[0], point[1], repr(point[2])))
        self.points = [point for point in self.points if point[0] > self.done_ns]
        return [(metric, [time_ns], [value], [step]) for time_ns, metric, value, step, _ in out]

    def due(self, lateness_ns: int) -> int | None:
        """Receive time of the next release."""
        return min(point[4] for point in self.points) + lateness_ns if self.points else None
