"""The shared page through which a training process shows its sidecar where it stands; survives a held GIL and SIGKILL.

The process writes, the sidecar reads, nobody locks. Numbers are 64-bit cells (`Cell`), each written in one store. Texts lie
behind them, guarded by `Cell.TEXT_VERSION`: odd while they change, and a reader tries again until it reads the same even
number before and after. Cell 0 names the layout, so that a reader of another version sees that it cannot read it.
"""

import mmap
import os
import tempfile
import time
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

LAYOUT = 0x46464C54_0001
"""Marks a page of this layout: `FFLT` and the version."""
SIZE = 4096
NONE = -(1 << 63)
"""A cell that holds no number."""
STATUS_UNKNOWN = 1 << 31
"""Low 32 bits of `Cell.STATUS` while no status is known."""
PHASE_AT, PHASE_SIZE = 512, 256
REASON_AT, REASON_SIZE = 1024, 1024
_READ_TRIES = 64


class Cell(IntEnum):
    """Index of each 64-bit cell."""

    LAYOUT = 0
    STEP = 1
    """Last step logged; NONE before the first."""
    PROGRESS_NS = 2
    """Wall clock of the last call of log, phase or event, nanoseconds since the epoch; NONE before the first."""
    EXIT = 3
    """An `Exit`."""
    EXIT_CODE = 4
    """Exit status the process is about to give, where it knows; else NONE."""
    EXIT_SENT = 5
    """1 once the service acknowledged the process's own exit record, else 0: then the sidecar sends one."""
    PHASE_DEPTH = 6
    """Open phases; 0 outside of any."""
    PHASE_SINCE_NS = 7
    """Wall clock at which the present phase began; NONE outside of any."""
    PHASE_EXPECT_MS = 8
    """Longest time the user expects the present phase to take, milliseconds; NONE when not given."""
    TEXT_VERSION = 9
    STATUS = 10
    """Exit status as the C library saw it, in the low 32 bits, written while the process exits; `STATUS_UNKNOWN` before. It
    tells `raise SystemExit(3)` from a clean end, which Python code cannot: where it is nonzero, it outweighs `EXIT`."""


class Exit(IntEnum):
    """How the process says that it ends."""

    RUNNING = 0
    FINISHED = 1
    """It left by its own choice with status 0."""
    FAILED = 2
    """An exception or a nonzero status ends it."""


@dataclass(frozen=True)
class Reading:
    """What a page said at one moment; None where it said nothing."""

    step: int | None
    progress_ns: int | None
    exit: Exit
    exit_code: int | None
    exit_sent: bool
    status: int | None
    """Exit status as the C library saw it: present only after an orderly exit, and then the truth."""
    phase: str
    phase_depth: int
    phase_since_ns: int | None
    phase_expect_s: float | None
    reason: str


class Beacon:
    """The writing side. One object per process; a forked child must not write to its parent's page."""

    def __init__(self) -> None:
        """Make the page: a memory file on Linux, else a temporary file. Raises OSError."""
        if hasattr(os, "memfd_create"):
            self.fd = os.memfd_create("firstfault", os.MFD_CLOEXEC)
            self.path = f"/proc/{os.getpid()}/fd/{self.fd}"
            self._file = ""
        else:
            self.fd, self.path = tempfile.mkstemp(prefix="firstfault-")
            self._file = self.path
        os.ftruncate(self.fd, SIZE)
        self._map = mmap.mmap(self.fd, SIZE)
        self.cells = memoryview(self._map).cast("q")
        for cell in Cell:
            self.cells[cell] = NONE
        self.cells[Cell.EXIT] = Exit.RUNNING
        self.cells[Cell.EXIT_SENT] = self.cells[Cell.PHASE_DEPTH] = self.cells[Cell.TEXT_VERSION] = 0
        self.cells[Cell.STATUS] = STATUS_UNKNOWN
        self.cells[Cell.LAYOUT] = LAYOUT

    def phase(self, name: str, depth: int, since_ns: int | None, expect_s: float | None) -> None:
        """Name the present phase; empty name, depth 0 and None outside of any."""
        cells = self.cells
        cells[Cell.PHASE_DEPTH] = depth
        cells[Cell.PHASE_SINCE_NS] = NONE if since_ns is None else since_ns
        cells[Cell.PHASE_EXPECT_MS] = NONE if expect_s is None else int(min(expect_s, 1e12) * 1000)
        self._text(PHASE_AT, PHASE_SIZE, name)

    def exit(self, state: Exit, code: int | None, reason: str) -> None:
        """Say how the process ends."""
        self._text(REASON_AT, REASON_SIZE, reason)
        self.cells[Cell.EXIT_CODE] = NONE if code is None else code
        self.cells[Cell.EXIT] = state

    def exit_sent(self) -> None:
        """The service acknowledged the exit record."""
        self.cells[Cell.EXIT_SENT] = 1

    def _text(self, at: int, size: int, text: str) -> None:
        encoded = text.encode("utf-8", "replace")[: size - 8]
        self.cells[Cell.TEXT_VERSION] += 1
        self.cells[at // 8] = len(encoded)
        self._map[at + 8 : at + 8 + len(encoded)] = encoded
        self.cells[Cell.TEXT_VERSION] += 1

    def close(self) -> None:
        """Release the page and remove its file; a sidecar that opened it keeps reading it."""
        self.cells.release()
        self._map.close()
        os.close(self.fd)
        if self._file:
            Path(self._file).unlink(missing_ok=True)


class BeaconReader:
    """The reading side."""

    def __init__(self, target: str | int) -> None:
        """Open a page by path or inherited descriptor. Raises OSError, or ValueError for something else than such a page."""
        fd = target if isinstance(target, int) else os.open(target, os.O_RDONLY)
        try:
            self._map = mmap.mmap(fd, SIZE, access=mmap.ACCESS_READ)
        finally:
            if not isinstance(target, int):
                os.close(fd)
        self._cells = memoryview(self._map).cast("q")
        if self._cells[Cell.LAYOUT] != LAYOUT:
            found = self._cells[Cell.LAYOUT]
            self.close()
            raise ValueError(f"not a beacon page of this version (layout {found:#x})")

    def read(self) -> Reading:
        """What the page says now. After a writer that died in the middle of a text, the text may be torn, never the numbers."""
        cells = self._cells
        for _ in range(_READ_TRIES):
            before = cells[Cell.TEXT_VERSION]
            reading = self._read_once()
            if before % 2 == 0 and cells[Cell.TEXT_VERSION] == before:
                return reading
            time.sleep(0.001)
        return reading

    def _read_once(self) -> Reading:
        expect_ms = self._number(Cell.PHASE_EXPECT_MS)
        state = self._cells[Cell.EXIT]
        status = self._cells[Cell.STATUS] & 0xFFFF_FFFF
        return Reading(
            step=self._number(Cell.STEP),
            progress_ns=self._number(Cell.PROGRESS_NS),
            exit=Exit(state) if state in (Exit.FINISHED, Exit.FAILED) else Exit.RUNNING,
            exit_code=self._number(Cell.EXIT_CODE),
            exit_sent=self._cells[Cell.EXIT_SENT] == 1,
            status=None if status == STATUS_UNKNOWN else status & 0xFF,
            phase=self._text(PHASE_AT, PHASE_SIZE),
            phase_depth=self._cells[Cell.PHASE_DEPTH],
            phase_since_ns=self._number(Cell.PHASE_SINCE_NS),
            phase_expect_s=None if expect_ms is None else expect_ms / 1000,
            reason=self._text(REASON_AT, REASON_SIZE),
        )

    def _number(self, cell: Cell) -> int | None:
        value = self._cells[cell]
        return None if value == NONE else value

    def _text(self, at: int, size: int) -> str:
        length = min(max(self._cells[at // 8], 0), size - 8)
        return self._map[at + 8 : at + 8 + length].decode("utf-8", "replace")

    def close(self) -> None:
        """Release the page."""
        self._cells.release()
        self._map.close()
