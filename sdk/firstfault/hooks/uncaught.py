"""Exceptions nobody catches: `sys.excepthook` and `threading.excepthook`."""

import sys
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Protocol

from firstfault._guard import guarded

ExceptHook = Callable[[type[BaseException], BaseException, "TracebackType | None"], object]


class Listener(Protocol):
    """Who wants to know."""

    def uncaught(self, error: BaseException, prior_is_default: bool) -> None:
        """An exception ends the main thread. With a foreign hook behind us this may be the last chance to send anything."""

    def thread_died(self, error: BaseException, thread: str) -> None:
        """An exception ended another thread."""


def install(listener: Listener) -> Callable[[], None]:
    """Set both hooks; the result puts back what was there, unless somebody else has set his own meanwhile."""
    prior = sys.excepthook
    prior_in_thread = threading.excepthook

    @guarded(None)
    def tell(error: BaseException) -> None:
        listener.uncaught(error, prior is sys.__excepthook__)

    @guarded(None)
    def tell_thread(args: threading.ExceptHookArgs) -> None:
        if args.exc_value is not None and not isinstance(args.exc_value, SystemExit):
            listener.thread_died(args.exc_value, args.thread.name if args.thread is not None else "")

    def excepthook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        try:
            tell(error)
        finally:
            prior(kind, error, trace)

    def thread_excepthook(args: threading.ExceptHookArgs) -> None:
        try:
            tell_thread(args)
        finally:
            prior_in_thread(args)

    sys.excepthook = excepthook
    threading.excepthook = thread_excepthook

    def remove() -> None:
        if sys.excepthook is excepthook:
            sys.excepthook = prior
        if threading.excepthook is thread_excepthook:
            threading.excepthook = prior_in_thread

    return remove
