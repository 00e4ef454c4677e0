"""Recognises failures that come at the same step of every attempt, or every so many steps."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import msgspec

LEAST_EVERY: Final = 3
"""Failures needed before a distance between steps is a rhythm; two always have one."""
TOLERANCE: Final = 0.02
"""Share of the distance by which steps may be off: logs name the last step printed, not the one that failed."""


class Rhythm(msgspec.Struct, kw_only=True, frozen=True):
    """How failures repeat."""

    step: int | None = None
    every: int | None = None
    text: str
    because: str


def rhythm_of(steps: Sequence[int | None]) -> Rhythm | None:
    """The rhythm of failures with the same fingerprint, by the step at which each came; None when there is none or steps are unknown."""
    known = [step for step in steps if step is not None]
    if len(known) < 2 or len(known) < len(steps):
        return None
    if len(set(known)) == 1:
        return Rhythm(
            step=known[0],
            text="Look at what is special at this step: the batch it reads, a checkpoint or evaluation that falls due, a schedule",
            because=f"it failed {len(known)} times at step {known[0]}",
        )
    gaps = [later - earlier for earlier, later in pairwise(known)]
    typical = sorted(gaps)[len(gaps) // 2]
    if len(known) >= LEAST_EVERY and typical > 0 and all(abs(gap - typical) <= TOLERANCE * typical for gap in gaps):
        return Rhythm(
            every=typical,
            text="Look for what happens at this interval: checkpoints, evaluation, data shards, memory that grows by the step",
            because=f"it failed every {typical} steps, {len(known)} times",
        )
    return None
