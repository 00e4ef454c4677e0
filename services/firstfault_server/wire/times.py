"""Which of a sender's times are believed."""

from typing import Final, NamedTuple

from firstfault_server.core.model import SECOND_NS

SLACK_NS: Final = 300 * SECOND_NS
"""A time further in the future of receive time is absurd; further in its past as well, unless the sender numbers its batches."""
OLDEST_SPOOLED_NS: Final = 30 * 24 * 3600 * SECOND_NS
"""Numbered batches may come late from a spool, but nothing is kept for longer than this."""


class Window(NamedTuple):
    """Believable times of what was received at `received_ns`."""

    received_ns: int
    earliest_ns: int
    latest_ns: int

    @classmethod
    def around(cls, received_ns: int, numbered: bool) -> "Window":
        """The window for a sender that numbers its batches, or does not."""
        back = OLDEST_SPOOLED_NS if numbered else SLACK_NS
        return cls(received_ns, max(1, received_ns - back), received_ns + SLACK_NS)

    def holds(self, time_ns: int) -> bool:
        """Whether the time is believed."""
        return self.earliest_ns <= time_ns <= self.latest_ns
