"""What one log says: its telling lines and exceptions in order, and what is known of the log as a whole."""

import msgspec

from firstfault.stack import Frame
from firstfault_server.core import model
from firstfault_server.core.cause.text import TextReading
from firstfault_server.core.grouping.crash import Crash


class Seen(msgspec.Struct, kw_only=True):
    """One thing a log says."""

    reading: TextReading
    text: str
    """The line, or `Type: message` of an exception."""
    line: int
    """Where it begins."""
    last_line: int
    """Where it is named."""
    order: int = 0
    """Of its being kept."""
    rank: int | None = None
    node: str = ""
    stream: str = ""
    time_ns: int | None = None
    crash: Crash | None = None
    native: list[Frame] = []
    """Frames of the native stack below it, innermost first."""
    count: int = 1
    step: int | None = None
    """Last step, iteration or epoch the log named before it."""
    attempt: int = 0
    """How often the job had begun again before this line."""
    survived: int = 0
    """Line of the training progress that followed it; 0: none did."""

    @property
    def ended(self) -> bool:
        """An exception that nothing says was ignored."""
        return self.crash is not None and not self.crash.ignored


class LogSummary(msgspec.Struct, kw_only=True):
    """What one log says."""

    source: str
    rank: int | None = None
    """Of the file itself, by its name."""
    seen: list[Seen] = []
    ranks: list[int] = []
    """Ranks that any line names as its speaker."""
    lines: int = 0
    timed: bool = False
    """Lines carry times that compare between files."""
    kernel: bool = False
    """It holds kernel lines."""
    dropped: int = 0
    """Telling lines beyond what is kept, and exceptions after that."""
    attempts: int = 1


def leading(role: model.Role) -> int:
    """Order of roles when one text shows several: own faults before reactions before teardown."""
    return {"initiating": 0, "unknown": 1, "waiting": 2, "cascade": 3, "teardown": 4}[role]
