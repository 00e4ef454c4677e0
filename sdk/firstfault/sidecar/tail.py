"""Follows the file behind a job's stderr by its descriptor, in bounded memory."""

import os
from collections import deque

from firstfault.sidecar.lines import LONGEST_LINE, decode_line

TAIL_LINES = 200
_TAIL_CHARACTERS = 128 * 1024
_READ_BYTES = 256 * 1024
_FAR_BEHIND_BYTES = 4 * 1024 * 1024
_LONGEST_PARTIAL = 2 * LONGEST_LINE


class StderrTail:
    """New lines of a growing file, and the last ones of all."""

    def __init__(self, fd: int, offset: int) -> None:
        """`fd` is open for reading; `offset` is where the lines of this process begin."""
        self._fd = fd
        self._at = offset
        self._partial = b""
        self._last: deque[str] = deque(maxlen=TAIL_LINES)
        self.skipped_bytes = 0
        """Bytes passed over because the file grew faster than it could be read."""

    def read(self) -> list[str]:
        """Lines finished since the last call; at most 256 kB at a time, call again while there are any. Raises OSError."""
        size = os.fstat(self._fd).st_size
        if size < self._at:  # Truncated, as log rotation by copy does.
            self._at, self._partial = 0, b""
        if size - self._at > _FAR_BEHIND_BYTES:
            skipped = size - self._at - _READ_BYTES
            self.skipped_bytes += skipped
            self._at += skipped
            self._partial = b""
        if size == self._at:
            return []
        data = os.pread(self._fd, _READ_BYTES, self._at)
        self._at += len(data)
        *finished, rest = (self._partial + data).split(b"\n")
        # A line without end, or a progress bar: its latest part is what counts.
        self._partial = rest if len(rest) <= _LONGEST_PARTIAL else rest[:LONGEST_LINE] + b"\r" + rest[-LONGEST_LINE:]
        lines = [decode_line(line) for line in finished if line.strip()]
        self._last.extend(lines)
        return lines

    def finish(self) -> list[str]:
        """The line that never got its end, after the process has ended; usually none."""
        rest, self._partial = self._partial, b""
        lines = [decode_line(rest)] if rest.strip() else []
        self._last.extend(lines)
        return lines

    def last(self) -> list[str]:
        """The last lines, oldest first, at most 200 and 128 k characters; not redacted."""
        kept: list[str] = []
        room = _TAIL_CHARACTERS
        for line in reversed(self._last):
            room -= len(line)
            if room < 0:
                break
            kept.append(line)
        return kept[::-1]
