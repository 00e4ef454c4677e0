"""Keeps every fault of the SDK away from the training process, and counts it; tests let faults through.

Under FIRSTFAULT_DEBUG_RAISE=1 guarded calls raise what went wrong, so that a test cannot pass over an internal error.
"""

import functools
import os
import signal
from collections import Counter
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

DEBUG_RAISE = "FIRSTFAULT_DEBUG_RAISE"


class Losses:
    """What was lost since the start, by reason. Counting needs no lock: a lost increment costs less than a lock a fork can hold."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def count(self, reason: str, number: int = 1) -> None:
        """Add to a reason."""
        self._counts[reason] += number

    def totals(self) -> dict[str, int]:
        """Reason -> count so far; reasons without a loss are absent."""
        return {reason: number for reason, number in sorted(self._counts.copy().items()) if number}

    def internal_error(self, error: BaseException, place: str) -> None:
        """An error of our own at a place of the code; raises it in tests."""
        self.count(f"internal_error:{place}:{type(error).__name__}")
        if debugging():
            raise error


def debugging() -> bool:
    """Whether internal errors are to be raised."""
    return os.environ.get(DEBUG_RAISE) == "1"


LOSSES = Losses()
"""Losses of this process. One per process by nature: what fails before there is a client is counted too."""


def guarded(default: T) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Decorator: errors of the function are counted, and the call gives `default`. KeyboardInterrupt and SystemExit pass."""

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            try:
                return function(*args, **kwargs)
            except Exception as error:
                if from_signal_handler(error):
                    raise
                LOSSES.internal_error(error, function.__qualname__)
                return default

        return call

    return decorate


def from_signal_handler(error: BaseException) -> bool:
    """Whether a Python signal handler of the user raised it while our code ran; such an exception is his, not ours."""
    codes = set()
    for number in signal.valid_signals():
        handler = signal.getsignal(number)
        codes.add(getattr(getattr(handler, "__func__", handler), "__code__", None))
    codes.discard(None)
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code in codes:
            return True
        trace = trace.tb_next
    return False
