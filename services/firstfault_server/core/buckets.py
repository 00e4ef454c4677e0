"""How wide the buckets of a series are."""

from typing import Final

from firstfault_server.core.model import SECOND_NS

WINDOW_NS: Final = 10 * SECOND_NS
"""Rollups count 10 s windows; a bucket is a whole number of them."""


def bucket_width(since_ns: int, until_ns: int, points: int) -> int:
    """Narrowest width in ns, a multiple of the window, that needs at most `points` buckets for [since, until).

    Buckets start at multiples of their width, so one more is needed for a period that does not start at one.
    """
    span = max(until_ns - since_ns, 1)
    width = -(-span // max(points, 1))
    width = max(WINDOW_NS, -(-width // WINDOW_NS) * WINDOW_NS)
    while points > 1 and (until_ns - 1) // width - since_ns // width + 1 > points:
        width += max(WINDOW_NS, width // points // WINDOW_NS * WINDOW_NS)
    return width
