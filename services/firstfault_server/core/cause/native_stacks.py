"""Collects the native stacks that follow telling lines, each stream's apart."""

from typing import Final

from firstfault_server.core.cause.log_summary import Seen
from firstfault_server.core.grouping.native import MOST_NATIVE, native_frame

_BETWEEN: Final = 8
"""Lines between a telling line and the native stack below it, or inside of that stack."""


class NativeStacks:
    """Streams on which a native stack may follow; true while there is one."""

    def __init__(self) -> None:
        self._open: dict[str, tuple[Seen, int]] = {}
        """Stream -> the line above its stack, and how many other lines have come since."""

    def __bool__(self) -> bool:
        return bool(self._open)

    def below(self, stream: str, seen: Seen) -> None:
        """A stack that follows on the stream belongs to this observation."""
        self._open[stream] = (seen, 0)

    def takes(self, stream: str, body: str) -> bool:
        """Whether the line is a frame of the stream's native stack."""
        if stream not in self._open:
            return False
        seen, others = self._open[stream]
        found = native_frame(body)
        if found is not None:
            if len(seen.native) < MOST_NATIVE:
                seen.native.append(found)
            self._open[stream] = (seen, 0)
            return True
        if others >= _BETWEEN:
            del self._open[stream]
        else:
            self._open[stream] = (seen, others + 1)
        return False

    def clear(self) -> None:
        """No stack is waited for any longer."""
        self._open.clear()
