"""Which revisions of an incident are kept: how it began and how it ended; the middle of a long story goes."""

from collections.abc import Sequence
from typing import Final

FIRST: Final = 50
LAST: Final = 150


def superfluous(revisions: Sequence[int]) -> Sequence[int]:
    """Of all revisions, oldest first, those that need not be kept."""
    return revisions[FIRST : len(revisions) - LAST] if len(revisions) > FIRST + LAST else []
