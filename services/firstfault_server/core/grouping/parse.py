"""Assembles exceptions from lines of one stream: tracebacks of every Python since 3.8, notebooks, rich, re-raises, truncated ends.

Linear in the input: every expression has bounded repeats and each line is looked at once. Prefixes (ranks, times, colours) are
taken off before (`core/grouping/prefix.py`).
"""

import re
from collections.abc import Iterator
from typing import Final

import msgspec

from firstfault.stack import Frame, frame
from firstfault_server.core.grouping.normalise import without_ansi

MOST_FRAMES: Final = 200
"""Frames kept of one stack, half from each end."""
MOST_CONTINUATION: Final = 60
"""Lines that a message may run on."""
LONGEST_MESSAGE: Final = 8192
"""Characters kept of a message."""

HEADER: Final = "Traceback (most recent call last)"
_FRAME: Final = re.compile(
    r'\s{0,40}File "(?P<file>[^"\n]{1,1000})", ?line {1,20}(?P<line>\d{1,9})(?:,? in(?: (?P<function>.{0,300}))?)?\s*$'
)
_SPLIT_FRAME: Final = re.compile(r'\s{0,40}File "(?P<file>[^"\n]{1,1000})",?\s*$')
_SPLIT_NAME: Final = re.compile(
    r'\s{0,40}"(?P<file>[^"\n]{1,1000})",?(?: line {1,4}(?P<line>\d{1,9})(?:, in(?: (?P<function>.{0,300}))?)?)?\s*$'
)
_SPLIT_REST: Final = re.compile(r"\s{0,40}line {1,20}(?P<line>\d{1,9})(?:,? in(?: (?P<function>.{0,300}))?)?\s*$")
_NOTEBOOK_FRAME: Final = re.compile(
    r"(?P<file><ipython-input-[\w-]{1,60}>|<timed \w{1,20}>|[~/][^\s:()]{1,500}\.py|[A-Za-z]:\\[^:()]{1,500}\.py"
    r"|/tmp/ipykernel_[^\s()]{1,200})"
    r" in (?P<function>[\w<>.]{1,200})(?:\(.{0,2000}\))?\s*$"
)
_NOTEBOOK_FRAME_NEW: Final = re.compile(
    r"File (?P<file>[^\s\"].{0,500}?):(?P<line>\d{1,9}), in (?P<function>[\w<>.]{1,200})(?:\(.{0,2000}\))?\s*$"
)
_CELL: Final = re.compile(r"(?:Cell )?In(?:put In)? ?\[\d{1,6}\](?:, line \d{1,9})?,?(?: in (?P<function>[\w<>.:]{1,200}))?.{0,200}$")
_RICH_FRAME: Final = re.compile(
    r"(?P<file>(?:[~/.]|[A-Za-z]:\\)\S{0,500}|\S{1,200}\.py):(?P<line>\d{1,9}) in (?P<function>[\w<>.]{1,200})\s*$"
)
_NUMBERED: Final = re.compile(r"\s{0,12}(?:-{2,6}> ?)?\d{1,7}(?:\s|$)|\s{0,8}❱")
_MARKERS: Final = re.compile(r"[\s^~]{1,4000}$")
_ELISION: Final = re.compile(r"\s{0,40}(?:\[Previous line repeated \d{1,9} more times?\]|\.\.\.<\d{1,9} lines>\.\.\.|\d{1,5} frames)\s*$")

_NAME: Final = r"(?:[A-Za-z_]\w{0,120}\.){0,12}[A-Za-z_]\w{0,120}(?:\([\w.]{1,120}\))?"
_TERMINAL: Final = re.compile(rf"(?P<type>{_NAME})(?::\s?(?P<message>.*)|\s*)$", re.DOTALL)
_SUFFIX: Final = re.compile(
    r"(?:Error|Exception|Interrupt|Exit|Warning|Iteration|Failure|Fault|Timeout|Expired|Died|Killed|Crashed|Empty|Full|Died|Closed|Mismatch|"
    r"Unsupported|Group|Abort|Aborted|Invalid|Conflict|NotFound|Panic|Traceback)(?:\([\w.]{1,120}\))?$"
)
_BARE: Final = re.compile(
    r"(?:E\s{1,8})?(?P<type>(?:[A-Za-z_]\w{0,120}\.){0,12}[A-Za-z_]\w{0,80}(?:Error|Exception|Interrupt|Died|Failure)(?:\([\w.]{1,120}\))?)"
    r"(?::\s?(?P<message>.*)|\s*)$",
    re.DOTALL,
)
_RAISE: Final = re.compile(r"\s{0,40}raise ")
CAUSE: Final = "The above exception was the direct cause of the following exception"
CONTEXT: Final = "During handling of the above exception, another exception occurred"
_NOISE: Final = re.compile(
    r"(?:\s{0,4}\d{1,3}%\||(?i:global[ _]?step|step|iter(?:ation)?|epoch|batch)s?[ :=\[#]{1,3}\d|"
    r"Process finished|wandb: |terminate called|Exception ignored|"
    r"ERROR[:\s]|WARNING[:\s]|INFO[:\s]|DEBUG[:\s]|"
    r"\[[A-Z]{1,8}\]|\[\d{4}-|\d{4}-\d\d-\d\d|\*{3,}|={5,}|-{5,}|\$ |>>> |srun: |slurmstepd: |mpirun|frame #\d|Sending process|Primary job|"
    r"Killing subprocess|[EWIF]\d{4} |\[[EWIF] ?\d{0,4} ?\w)"
)
_PROGRESS_BAR: Final = re.compile(r"\s{0,8}\d{1,3}%\|")
_GROUP_EDGE: Final = re.compile(r"\s{0,40}(?:\| {0,4}|\+ (?=Exception Group Traceback)|\+-\+-{4,}|\+-{4,})")
_BOX: Final = "│╭╰┃┏┗|"


class Link(msgspec.Struct, kw_only=True):
    """One exception of a chain."""

    type: str
    message: str = ""
    frames: list[Frame] = []
    relation: str = ""
    """cause | context | group, to the exception it belongs to; empty for the last one."""


class Crash(msgspec.Struct, kw_only=True):
    """One exception as printed, with the chain that led to it."""

    type: str
    message: str = ""
    frames: list[Frame] = []
    chain: list[Link] = []
    """Causes and contexts, nearest first."""
    first_line: int = 0
    """Number of the line it begins on, from 1."""
    last_line: int = 0
    """Number of the line that names it."""
    ignored: bool = False
    """Python said so: raised in a destructor or callback, nothing ended."""
    bare: bool = False
    """Only the line that names it was there."""


class _Open(msgspec.Struct, kw_only=True):
    """A traceback being read."""

    first_line: int
    indent: int = -1
    """Columns before the header; -1 unknown."""
    style: str = "python"
    """python | notebook | rich | fatal"""
    named: str = ""
    """Type that a notebook header names."""
    frames: list[Frame] = []
    split_file: str = ""
    since_frame: int = 0
    ignored: bool = False
    original: bool = False
    """It is printed inside the message of the exception before it."""


class CrashParser:
    """Push parser over one stream: `feed` a line, get the exceptions that became complete."""

    def __init__(self) -> None:
        self._open: _Open | None = None
        self._done: Crash | None = None
        """Named, its message may go on."""
        self._run_on = 0
        self._blank = False
        self._relation = ""
        self._earlier: Crash | None = None
        """Complete, waiting for the exception that chains to it."""
        self._ignored = False
        self._took = False
        self._marked = False
        self._named_marked = False

    @property
    def busy(self) -> bool:
        """Whether the next line may matter whatever it says."""
        return self._open is not None or self._done is not None

    @property
    def reading(self) -> bool:
        """Whether the line just taken belongs to a traceback or a message."""
        return self._took

    def feed(self, line: str, number: int, marked: bool = False) -> list[Crash]:
        """Take one line without its prefix and line end; `marked`: a time or level stood in front of it."""
        self._marked = marked
        out: list[Crash] = []
        text = _unboxed(line)
        self._took = True
        if self._open is None and self._done is None and HEADER not in text and 'File "' not in text:
            if not text or text.isspace():
                self._took = False
                return out
            self._idle(text, number, out)
            return out
        if HEADER in text:
            self._header(text, number, out)
        elif self._open is not None:
            self._inside(text, number, out)
        elif self._done is not None:
            self._after(text, number, out)
        else:
            self._idle(text, number, out)
        return out

    def close(self) -> list[Crash]:
        """End of the stream: what is still open, as far as it goes."""
        out: list[Crash] = []
        self._give_up(out)
        self._flush(out)
        if self._earlier is not None:
            out.append(self._earlier)
            self._earlier = None
        return out

    # ---- states -----------------------------------------------------------------------------------------------------

    def _header(self, text: str, number: int, out: list[Crash]) -> None:
        at = text.index(HEADER)
        before = text[:at]
        named = before.strip()
        original = named.endswith("Original")
        if self._open is not None:
            if self._open.frames:
                if len(self._open.frames) < 2 and not original:
                    return  # two ranks print at once; go on with the one that is open
                self._give_up(out)
            else:
                return
        nested = self._done is not None and (original or self._done.message.strip() == "" or _terminated(self._done.message))
        if self._done is not None and not nested:
            self._flush(out, keep=bool(self._relation))
        style = "python"
        name = ""
        if "─" in text or "╭" in text:
            style = "rich"
        elif re.fullmatch(_NAME, named) and text.rstrip().endswith(HEADER):
            style, name = "notebook", named
        self._open = _Open(
            first_line=number,
            indent=len(before) - len(before.lstrip()) if not named else -1,
            style=style,
            named=name,
            ignored=self._ignored,
            original=nested,
        )
        self._ignored = False

    def _inside(self, text: str, number: int, out: list[Crash]) -> None:
        current = self._open
        assert current is not None
        bare = text.strip()
        if not bare:
            current.since_frame += 1
            if current.since_frame > 6 and current.style == "python":
                self._give_up(out)
            return
        if self._frame(current, text, bare):
            return
        if _MARKERS.match(text) or _ELISION.match(text) or (current.style != "python" and _NUMBERED.match(text)):
            return
        if bare.startswith(('"""', "'''")):
            return
        if self._names(current, text, bare):
            self._finish(current, bare, number)
            return
        current.since_frame += 1
        self._took = text[:1] in (" ", "\t")
        if current.since_frame > (12 if current.style == "python" else 400):
            self._give_up(out)
            self._idle(text, number, out)

    def _frame(self, current: _Open, text: str, bare: str) -> bool:
        found = None
        if 'File "' in text:
            found = _FRAME.match(text) or _SPLIT_FRAME.match(text)
            if found is not None and "line" not in found.groupdict():
                current.split_file = found["file"]
                return True
        elif current.split_file == "?":
            current.split_file = ""
            named = _SPLIT_NAME.match(text)
            if named is not None and named["line"]:
                self._add(current, named["file"], named["function"] or "<module>", named["line"])
            elif named is not None:
                current.split_file = named["file"]
            return named is not None
        elif bare == "File":
            current.split_file = "?"
            return True
        elif current.split_file:
            rest = _SPLIT_REST.match(text)
            if rest is not None:
                self._add(current, current.split_file, rest["function"] or "<module>", rest["line"])
                current.split_file = ""
                return True
        elif current.style in ("notebook", "rich"):
            found = _NOTEBOOK_FRAME.match(bare) or _NOTEBOOK_FRAME_NEW.match(bare)
            if found is None and current.style == "rich":
                found = _RICH_FRAME.match(bare)
            if found is None and (cell := _CELL.match(bare)) is not None:
                self._add(current, "<ipython-input-0>", cell["function"] or "<module>", "0")
                return True
        if found is None:
            return False
        groups = found.groupdict()
        self._add(current, groups["file"], (groups.get("function") or "").strip() or "<module>", groups.get("line") or "0")
        return True

    def _add(self, current: _Open, file: str, function: str, line: str) -> None:
        if function.endswith(")") and "(" in function:
            function = function[: function.index("(")]
        current.since_frame = 0
        current.frames.append(frame(file, function[:200], int(line)))
        if len(current.frames) > MOST_FRAMES:
            del current.frames[MOST_FRAMES // 2]

    def _names(self, current: _Open, text: str, bare: str) -> bool:
        """Whether the line names the exception of the open traceback."""
        found = _TERMINAL.match(bare)
        if found is None:
            return False
        name = found["type"]
        if current.named:
            return name == current.named or (text[:1] not in (" ", "\t") and name.rsplit(".", 1)[-1] == current.named.rsplit(".", 1)[-1])
        indent = len(text) - len(text.lstrip())
        known = _SUFFIX.search(name) is not None
        if known and (found["message"] is not None or current.since_frame or indent == 0):
            return True
        if not current.frames:
            return False
        # Own exception classes have any name: then the line must stand where the header stood, and look like a class.
        last = name.rsplit(".", 1)[-1]
        return 0 <= indent <= max(current.indent, 0) and last[:1].isupper() and found["message"] is not None and current.indent >= 0

    def _finish(self, current: _Open, bare: str, number: int) -> None:
        found = _TERMINAL.match(bare)
        assert found is not None
        name, message = _once(found["type"], (found["message"] or "").strip())
        frames = current.frames[::-1] if current.style == "fatal" else current.frames
        crash = Crash(
            type=name,
            message=message[:LONGEST_MESSAGE],
            frames=frames,
            first_line=current.first_line,
            last_line=number,
            ignored=current.ignored,
        )
        if current.original and self._done is not None:
            # Printed inside the message of the one before: that one is what the caller saw, this one is its cause.
            outer = self._done
            outer.chain = [Link(type=crash.type, message=crash.message, frames=crash.frames, relation="cause"), *crash.chain, *outer.chain]
            outer.last_line = number
        else:
            if self._relation and self._earlier is not None:
                before = self._earlier
                first = Link(type=before.type, message=before.message, frames=before.frames, relation=self._relation)
                crash.chain = [first, *before.chain][:10]
                crash.first_line = before.first_line
            self._earlier, self._relation = None, ""
            self._done = crash
        self._open = None
        self._run_on = 0
        self._blank = False
        self._named_marked = self._marked

    def _after(self, text: str, number: int, out: list[Crash]) -> None:
        """A message may run on; then a chain may go on."""
        done = self._done
        assert done is not None
        bare = text.strip()
        if not bare or bare in ('"""', "'''"):
            self._blank = True
            return
        if (CAUSE in text or CONTEXT in text) and not done.bare:
            self._relation = "cause" if CAUSE in text else "context"
            self._earlier, self._done = done, None
            return
        if _FRAME.match(text) and done.type.startswith("ray.") and not self._blank:
            self._open = _Open(first_line=number, original=True)
            self._frame(self._open, text, bare)
            return
        indented = text.startswith(("  ", "\t"))
        new = _BARE.match(bare) if not indented else None
        if new is not None and _same(new, done):
            return
        if self._marked and not self._named_marked:
            # The message had no time or level in front, this line has: another entry of the log.
            self._flush(out)
            self._idle(text, number, out)
            return
        noise = _PROGRESS_BAR.match(text) is not None or (not indented and _NOISE.match(bare) is not None)
        if self._blank or self._run_on >= MOST_CONTINUATION or new is not None or noise or (not indented and self._run_on >= 12):
            # What follows a blank line may still be the inner traceback of an empty message; wait for it.
            if self._blank and (_terminated(done.message) or not done.message) and self._run_on < 4 and bare.startswith("-- Process"):
                self._run_on += 1
                return
            self._flush(out)
            self._idle(text, number, out)
            return
        self._run_on += 1
        if len(done.message) < LONGEST_MESSAGE:
            done.message = (done.message + "\n" + text.rstrip())[:LONGEST_MESSAGE]

    def _idle(self, text: str, number: int, out: list[Crash]) -> None:
        self._took = False
        if 'File "' in text and (_FRAME.match(text) or _SPLIT_FRAME.match(text)):
            self._open = _Open(first_line=number)
            self._frame(self._open, text, text.strip())
            self._took = True
            return
        if "Exception ignored in" in text or "Error in atexit" in text:
            self._ignored = True
            return
        if CAUSE in text or CONTEXT in text:
            return
        bare = text.strip()
        found = _BARE.match(bare)
        if found is not None and not _RAISE.match(text):
            name, message = _once(found["type"], (found["message"] or "").strip())
            if name.endswith("RemoteTraceback"):
                return
            if found["message"] is None and "." not in name and bare[:1].islower():
                return
            self._done = Crash(type=name, message=message[:LONGEST_MESSAGE], first_line=number, last_line=number, bare=True)
            self._took = True
            self._named_marked = self._marked
            self._run_on = 0
            self._blank = False

    def _flush(self, out: list[Crash], keep: bool = False) -> None:
        if self._done is not None and not keep:
            out.append(self._done)
            self._done = None

    def _give_up(self, out: list[Crash]) -> None:
        """The open traceback ends without a name: truncated."""
        current, self._open = self._open, None
        if current is None or not current.frames:
            return
        if current.original and self._done is not None:
            self._done.chain = [Link(type="", frames=current.frames, relation="cause"), *self._done.chain]
            return
        if self._earlier is not None:
            out.append(self._earlier)
            self._earlier = None
        self._flush(out)
        out.append(
            Crash(
                type=current.named,
                frames=current.frames,
                first_line=current.first_line,
                last_line=current.first_line,
                ignored=current.ignored,
            )
        )


def _unboxed(line: str) -> str:
    """The line without the frames that rich and exception groups draw around it."""
    if "│" in line or "╭" in line or "╰" in line or "┃" in line:
        inner = line.strip().strip("│┃ ")
        return inner if HEADER not in line else line
    if line.lstrip()[:1] in ("|", "+"):
        edge = _GROUP_EDGE.match(line)
        if edge is not None:
            rest = line[edge.end() :]
            return rest if not rest.startswith("-") else ""
    return line


def _terminated(message: str) -> bool:
    """Whether a message announces that an inner traceback follows."""
    end = message.rstrip()[-200:].lower()
    return end.endswith(("following error:", "traceback:", "failed with:", "exception:")) or ("caught " in end and " in " in end) or not end


def _once(name: str, message: str) -> tuple[str, str]:
    """Two ranks wrote `Type: text` without a line end between: keep one."""
    head = f"{name}: "
    at = message.find(name + ":")
    if at > 0 and message[:at].rstrip() == message[at + len(head) :].rstrip():
        return name, message[:at].rstrip()
    return name, message


def _same(found: "re.Match[str]", done: Crash) -> bool:
    return found["type"] == done.type and (found["message"] or "").strip() == done.message.strip()


def crashes_of(lines: Iterator[tuple[int, str]]) -> Iterator[Crash]:
    """Exceptions of one stream of numbered lines without prefixes."""
    parser = CrashParser()
    for number, line in lines:
        yield from parser.feed(line, number)
    yield from parser.close()


def parse_text(text: str) -> list[Crash]:
    """Exceptions of a text that holds one process's output without prefixes, for instance a formatted stack trace."""
    return list(crashes_of((number, without_ansi(line)) for number, line in enumerate(text.splitlines(), 1)))
