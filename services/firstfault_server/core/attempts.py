"""Which attempt is which: a run lists the starts of its latest attempts only, and the last of them is the one it is in."""

from firstfault_server.core import model


def starts(run: model.RunStatus) -> list[tuple[int, int]]:
    """Number and start (nanoseconds) of each attempt that is listed, oldest first; [] when no start is known."""
    first = max(1, run.attempt - len(run.attempts_started_ns) + 1)
    return list(enumerate(run.attempts_started_ns, start=first))
