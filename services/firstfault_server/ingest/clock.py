"""Receive time: the service's only clock for silence, and the clock records that carry it through the log."""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Final

from firstfault_server.ports import Clock, Log, LogEntry, StoreUnavailable

CLOCK_INTERVAL_S: Final = 0.25
FOLLOW_S: Final = 5.0

_logger = logging.getLogger(__name__)


class ReceiveClock:
    """A clock that never goes back, not even over a restart or when the wall clock is set back.

    While the wall clock lies behind what was given out already, time goes on at half the speed of the monotonic clock, until the
    wall clock has caught up: silences then look at most twice as short as they are, never longer.
    """

    def __init__(self, wall: Clock, not_before_ns: int = 0, monotonic_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._wall, self._monotonic_ns = wall, monotonic_ns
        self._last = not_before_ns
        self._at = monotonic_ns()

    def now_ns(self) -> int:
        """Receive time of what has just arrived; never lower than any time given before."""
        at = self._monotonic_ns()
        passed, self._at = at - self._at, at
        self._last = max(self._wall.now_ns(), self._last + passed // 2)
        return self._last

    def catch_up(self, not_before_ns: int) -> int:
        """Somebody else has stamped this time already: go on from there. Nanoseconds by which this clock was behind."""
        behind = not_before_ns - self.now_ns()
        self._last = max(self._last, not_before_ns)
        return max(behind, 0)


async def follow_others(
    clock: ReceiveClock, newest_ns: Callable[[], int], behind: Callable[[int], None], every_s: float = FOLLOW_S
) -> None:
    """Keep up with the other receivers that write the same log, for ever: time there must not go back. Ends by cancellation.

    `newest_ns` reads the newest receive time in the log; it may block. `behind` is told by how much this clock was behind.
    """
    while True:
        try:
            behind(clock.catch_up(await asyncio.to_thread(newest_ns)))
        except StoreUnavailable as error:
            # Appends fail as well then, and say so louder.
            _logger.info("the newest receive time cannot be read: %s", error)
        await asyncio.sleep(every_s)


async def write_clock_records(log: Log, clock: ReceiveClock, interval_s: float = CLOCK_INTERVAL_S) -> None:
    """Append a clock record several times a second, for ever: so that silence is seen when nobody sends. Ends by cancellation."""
    failing = False
    while True:
        try:
            await log.append([LogEntry(tenant="", process="", signal="clock", received_ns=clock.now_ns())])
            failing = False
        except StoreUnavailable as error:
            if not failing:
                _logger.error("clock records cannot be written, detection stands still: %s", error)
            failing = True
        await asyncio.sleep(interval_s)
