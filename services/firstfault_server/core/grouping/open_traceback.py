"""One traceback while it is read: which lines are its frames, which line names its exception, in every style that prints them."""

from dataclasses import replace
from typing import Final

import msgspec

from firstfault.stack import Frame, frame
from firstfault_server.core.grouping import shapes
from firstfault_server.core.grouping.crash import Crash

MOST_FRAMES: Final = 200
"""Frames kept of one stack, half from each end."""
MOST_KNOWN: Final = 20_000
LONGEST_MESSAGE: Final = 8192
"""Characters kept of a message."""
LONGEST_SOURCE: Final = 300
"""Characters kept of the line that raised."""
_SOURCE: Final = "    "


class OpenTraceback(msgspec.Struct, kw_only=True):
    """A traceback being read."""

    first_line: int
    known: dict[tuple[str, str, str], Frame]
    """Frames made before, shared by the parsers of one log."""
    indent: int = -1
    """Columns before the header; -1 unknown."""
    style: str = "python"
    """python | notebook | rich | dump"""
    named: str = ""
    """Type that a notebook header names."""
    frames: list[Frame] = []
    split_file: str = ""
    source: str = ""
    """Source line below the newest frame."""
    since_frame: int = 0
    ignored: bool = False
    original: bool = False
    """It is printed inside the message of the exception before it."""

    def takes(self, text: str, bare: str) -> bool:
        """Whether the line is one of its frames, or source and marks below a frame; `bare`: the line without spaces around it."""
        if self.takes_frame(text, bare):
            return True
        if self.style == "python" and self.frames and self.indent < len(_SOURCE) and text.startswith(_SOURCE):
            self.source = self.source or bare[:LONGEST_SOURCE]  # what follows it are marks
            return True
        if shapes.MARKERS.match(text) or shapes.ELISION.match(text) or (self.style != "python" and shapes.NUMBERED.match(text)):
            return True
        return bare.startswith(('"""', "'''"))

    def takes_frame(self, text: str, bare: str) -> bool:
        """Whether the line is a frame, or a piece of one that was broken over lines."""
        found = None
        if 'File "' in text:
            found = shapes.FRAME.match(text) or shapes.SPLIT_FRAME.match(text)
            if found is not None and "line" not in found.groupdict():
                self.split_file = found["file"]
                return True
        elif self.split_file == "?":
            self.split_file = ""
            named = shapes.SPLIT_NAME.match(text)
            if named is not None and named["line"]:
                self._add(named["file"], named["function"] or "<module>", named["line"])
            elif named is not None:
                self.split_file = named["file"]
            return named is not None
        elif bare == "File":
            self.split_file = "?"
            return True
        elif self.split_file:
            rest = shapes.SPLIT_REST.match(text)
            if rest is not None:
                self._add(self.split_file, rest["function"] or "<module>", rest["line"])
                self.split_file = ""
                return True
        elif self.style in ("notebook", "rich"):
            found = shapes.NOTEBOOK_FRAME.match(bare) or shapes.NOTEBOOK_FRAME_NEW.match(bare)
            if found is None and self.style == "rich":
                found = shapes.RICH_FRAME.match(bare)
            if found is None and (cell := shapes.CELL.match(bare)) is not None:
                self._add("<ipython-input-0>", cell["function"] or "<module>", "0")
                return True
        if found is None:
            return False
        groups = found.groupdict()
        self._add(groups["file"], (groups.get("function") or "").strip() or "<module>", groups.get("line") or "0")
        return True

    def _add(self, file: str, function: str, line: str) -> None:
        if function.endswith(")") and "(" in function:
            function = function[: function.index("(")]
        self.since_frame, self.source = 0, ""
        key = (file, function, line)
        made = self.known.get(key)
        if made is None:
            made = frame(file, function[:200], int(line))
            if len(self.known) < MOST_KNOWN:
                self.known[key] = made
        self.frames.append(made)
        if len(self.frames) > MOST_FRAMES:
            del self.frames[MOST_FRAMES // 2]

    def is_named_by(self, text: str, bare: str) -> bool:
        """Whether the line names its exception."""
        found = shapes.TERMINAL.match(bare)
        if found is None:
            return False
        name = found["type"]
        if self.named:
            return name == self.named or (text[:1] not in (" ", "\t") and name.rsplit(".", 1)[-1] == self.named.rsplit(".", 1)[-1])
        indent = len(text) - len(text.lstrip())
        known = shapes.SUFFIX.search(name) is not None
        if known and (found["message"] is not None or self.since_frame or indent == 0):
            return True
        if not self.frames:
            return False
        # Own exception classes have any name: then the line must stand where the header stood, and look like a class.
        last = name.rsplit(".", 1)[-1]
        return 0 <= indent <= max(self.indent, 0) and last[:1].isupper() and found["message"] is not None and self.indent >= 0

    def complete(self, bare: str, number: int) -> Crash:
        """The exception, named by the line `bare` (for which `is_named_by` holds)."""
        found = shapes.TERMINAL.match(bare)
        assert found is not None
        name, message = shapes.once(found["type"], (found["message"] or "").strip())
        if self.source and self.frames:
            self.frames[-1] = replace(self.frames[-1], source=self.source)
        return Crash(
            type=name,
            message=message[:LONGEST_MESSAGE],
            frames=self.frames,
            first_line=self.first_line,
            last_line=number,
            ignored=self.ignored,
        )

    def truncated(self) -> Crash:
        """The exception as far as it goes, without a name unless the header gave one."""
        return Crash(type=self.named, frames=self.frames, first_line=self.first_line, last_line=self.first_line, ignored=self.ignored)
