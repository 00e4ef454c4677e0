"""Python 3.12 and later warn when a process with threads forks; our thread alone must not be the reason for it.

The warning is right where the program has threads of its own, and stays then. Our thread is safe to fork beside: the child
never touches what it used, and a fork waits for the imports it does (`_lifecycle`).
"""

import sys
import warnings
from pathlib import Path
from typing import Any

_MESSAGE = r"This process \(pid=\d+\) is multi-threaded, use of fork"
_WARNS = sys.hexversion >= 0x030C0000
_OURS_ALONE = 2
"""Threads of a process whose only threads are the main one and the exporter's."""


def silence_if_ours_alone() -> None:
    """Call before a fork: put the filter in place, or take it away, as the number of threads says."""
    if not _WARNS:
        return
    if _threads() == _OURS_ALONE:
        # Put in front once: the same filter is not added a second time.
        warnings.filterwarnings("ignore", message=_MESSAGE, category=DeprecationWarning)
    else:
        filters: Any = warnings.filters
        ours = [one for one in filters if one[0] == "ignore" and getattr(one[1], "pattern", None) == _MESSAGE]
        for one in ours:
            filters.remove(one)
        mutated = getattr(warnings, "_filters_mutated", None)
        if ours and mutated is not None:
            mutated()


def _threads() -> int:
    """Threads of this process as the operating system counts them; 0 where it does not say."""
    try:
        return int(Path("/proc/self/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()[17])
    except (OSError, ValueError, IndexError):
        return 0
