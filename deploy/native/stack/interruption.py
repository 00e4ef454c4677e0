"""A request to end (Ctrl-C, SIGTERM, a terminal that closes) as one exception, so that what was begun can be ended in order."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final, NoReturn

ASKING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(BaseException):
    """Somebody asked the process to end. No `Exception`: nothing on the way may take it for a failure of its own."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.status: Final = 128 + number
        """Exit status that shells give a process that such a signal has ended."""


@contextmanager
def interruptible() -> Iterator[None]:
    """Raise Interrupted at the first request, in the main thread; further ones are ignored from then on: the end is not cut short.

    Requests that the process was started to ignore, as `nohup` does, stay ignored.
    """
    before = {number: handler for number in ASKING if (handler := signal.getsignal(number)) is not signal.SIG_IGN}
    asked: list[int] = []

    def ask(number: int, _frame: FrameType | None) -> NoReturn:
        asked.append(number)
        for each in before:
            signal.signal(each, signal.SIG_IGN)
        raise Interrupted(number)

    for number in before:
        signal.signal(number, ask)
    try:
        yield
    finally:
        if not asked:
            for number, handler in before.items():
                signal.signal(number, handler)
