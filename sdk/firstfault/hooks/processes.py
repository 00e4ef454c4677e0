"""Children of `multiprocessing`: their exceptions reach no excepthook, and their end runs no `atexit`.

`BaseProcess._bootstrap` prints an exception of the child with `traceback.print_exc` and returns the exit status. Both are
wrapped, in the child only; catching the exception around `run` would add a frame of ours to what the child prints.
A child that reports only from its own target runs `_bootstrap` by then: a finalizer of `multiprocessing`, called while the
exception passes, tells how it ends.
"""

import sys
import traceback
from collections.abc import Callable
from multiprocessing.process import BaseProcess, current_process, parent_process
from typing import Any, Protocol

from firstfault._guard import guarded


class Listener(Protocol):
    """Who wants to know, in the child."""

    def child_raised(self, error: BaseException, name: str) -> None:
        """An exception ends this child."""

    def child_ends(self, code: int) -> None:
        """This child is about to end with this status."""


def install(listener: Listener) -> Callable[[], None]:
    """Wrap the start of every child, and the end of this process if it is one; the result undoes it."""
    original: Callable[..., int] = BaseProcess._bootstrap  # type: ignore[attr-defined]

    @guarded(None)
    def raised(name: str) -> None:
        error = sys.exc_info()[1]
        if error is not None:
            listener.child_raised(error, name)

    @guarded(None)
    def ends(code: int) -> None:
        listener.child_ends(code)

    def bootstrap(self: BaseProcess, *args: Any, **kwargs: Any) -> int:
        print_exc = traceback.print_exc

        def noted_print_exc(*args: Any, **kwargs: Any) -> None:
            if sys._getframe(1).f_code is original.__code__:
                raised(self.name)
            print_exc(*args, **kwargs)

        traceback.print_exc = noted_print_exc
        try:
            code = original(self, *args, **kwargs)
        finally:
            traceback.print_exc = print_exc
        ends(code)
        return code

    BaseProcess._bootstrap = bootstrap  # type: ignore[attr-defined]
    cancel = _at_end(raised, ends) if parent_process() is not None else None

    def remove() -> None:
        if cancel is not None:
            cancel()
        if BaseProcess._bootstrap is bootstrap:  # type: ignore[attr-defined]
            BaseProcess._bootstrap = original  # type: ignore[attr-defined]

    return remove


_LAST = -1_000_000
"""Finalizers of `multiprocessing` run from the highest priority to the lowest; children are joined before negative ones."""


def _at_end(raised: Callable[[str], None], ends: Callable[[int], None]) -> Callable[[], object]:
    """Hear of the end of the child we are in; the result calls it off."""
    # Imported here: it is loaded in every child, and takes locks that a parent need not have.
    from multiprocessing.util import Finalize

    def finalize() -> None:
        error = sys.exc_info()[1]
        if error is not None and not isinstance(error, SystemExit):
            raised(current_process().name)
        ends(_status_of(error))

    return Finalize(None, finalize, exitpriority=_LAST).cancel


def _status_of(error: BaseException | None) -> int:
    """The exit status of a child, as `_bootstrap` reads what left the target."""
    if not isinstance(error, SystemExit):
        return int(error is not None)
    code = error.code
    return 0 if code is None else code if isinstance(code, int) else 1
