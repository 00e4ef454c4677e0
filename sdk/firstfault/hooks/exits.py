"""Ways out of the process that Python code can see: `sys.exit` with its status, and `atexit`.

`SystemExit` bypasses `sys.excepthook`, and nothing tells an `atexit` function the status. So `sys.exit` is wrapped to remember
what it was given. `raise SystemExit(3)` stays unseen here; the beacon's STATUS cell, written by the C library, tells the sidecar.
"""

import atexit
import contextlib
import functools
import sys
import threading
from collections.abc import Callable
from typing import Any, NoReturn

from firstfault._capture import Captured, capture, type_name
from firstfault._guard import guarded


class ExitStatus:
    """What the main thread last gave to `sys.exit`."""

    def __init__(self) -> None:
        self.code: int | None = None
        self.reason = ""
        self.step: int | None = None
        """Last step logged before; training that goes on after it shows that somebody caught the SystemExit."""
        self.handling: Captured | None = None
        """The exception in whose handler the program gave up."""

    def note(self, argument: Any, step: int | None, handling: BaseException | None) -> None:
        """Remember an argument of `sys.exit`, read as the interpreter reads it."""
        self.forget()
        self.step = step
        if argument is None:
            self.code = 0
        elif isinstance(argument, int):
            self.code = argument & 0xFF
        else:
            self.code, self.reason = 1, argument if type(argument) is str else type_name(type(argument))
        if self.code and isinstance(handling, Exception):
            self.handling = capture(handling)

    def forget(self) -> None:
        """Nothing was given."""
        self.code, self.reason, self.step, self.handling = None, "", None, None


def install(status: ExitStatus, last_step: Callable[[], int | None], at_exit: Callable[[], None]) -> Callable[[], None]:
    """Wrap `sys.exit` and register `at_exit`; the result undoes both."""
    original = sys.exit

    @guarded(None)
    def note(argument: Any) -> None:
        if threading.current_thread() is threading.main_thread():
            status.note(argument, last_step(), sys.exc_info()[1])

    @functools.wraps(original)
    def noted_exit(argument: Any = None, /) -> NoReturn:
        note(argument)
        original(argument)

    sys.exit = noted_exit
    atexit.register(at_exit)

    def remove() -> None:
        if sys.exit is noted_exit:
            sys.exit = original
        atexit.unregister(at_exit)

    return remove


def restore_death_by_interrupt() -> None:
    """Make the interpreter die of SIGINT again after an uncaught KeyboardInterrupt, so that a shell sees what happened.

    CPython keeps a flag for this, set where a KeyboardInterrupt leaves executed source and cleared by the next `exec` of a
    string. Imports while the process ends do that (dataclasses are made so); raising it once more sets the flag again.
    """
    with contextlib.suppress(KeyboardInterrupt):
        exec("raise KeyboardInterrupt")
