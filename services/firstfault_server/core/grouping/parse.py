"""Assembles exceptions from lines of one stream: tracebacks of every Python since 3.8, notebooks, rich, re-raises, truncated ends.

Linear in the input: every expression has bounded repeats and each line is looked at once. Prefixes (ranks, times, colours) are
taken off before (`core/grouping/prefix.py`).
"""

import re
from collections.abc import Iterator
from typing import Final

from firstfault.stack import Frame
from firstfault_server.core.grouping import shapes
from firstfault_server.core.grouping.crash import Crash, Link
from firstfault_server.core.grouping.normalise import without_ansi
from firstfault_server.core.grouping.open_traceback import LONGEST_MESSAGE, LONGEST_SOURCE, OpenTraceback

MOST_CONTINUATION: Final = 60
"""Lines that a message may run on."""


class CrashParser:
    """Push parser over one stream: `feed` a line, get the exceptions that became complete."""

    def __init__(self, known: dict[tuple[str, str, str], Frame] | None = None) -> None:
        """`known`: frames made before, shared by the parsers of one log; ranks mostly print the same ones."""
        self._known = known if known is not None else {}
        self._open: OpenTraceback | None = None
        self._done: Crash | None = None
        """Named, its message may go on."""
        self._run_on = 0
        self._blank = False
        self._relation = ""
        self._earlier: Crash | None = None
        """Complete, waiting for the exception that chains to it."""
        self._ignored = False
        self._took = False
        self._fatal = ""
        self._fatal_line = 0
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
        text = shapes.unboxed(line)
        self._took = True
        if self._open is None and self._done is None and shapes.HEADER not in text and 'File "' not in text and shapes.DUMP not in text:
            if not text or text.isspace():
                self._took = False
                return out
            self._idle(text, number, out)
            return out
        if shapes.HEADER in text:
            self._header(text, number, out)
        elif shapes.DUMP in text:
            self._give_up(out)
            self._flush(out)
            self._open = OpenTraceback(first_line=number, known=self._known, style="dump")
        elif self._open is not None and self._open.style == "dump":
            self._dump(text, number, out)
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
        at = text.index(shapes.HEADER)
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
        nested = self._done is not None and (original or self._done.message.strip() == "" or shapes.terminated(self._done.message))
        if self._done is not None and not nested:
            self._flush(out, keep=bool(self._relation))
        style = "python"
        name = ""
        if "─" in text or "╭" in text:
            style = "rich"
        elif re.fullmatch(shapes.NAME, named) and text.rstrip().endswith(shapes.HEADER):
            style, name = "notebook", named
        self._open = OpenTraceback(
            first_line=number,
            known=self._known,
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
        if current.takes(text, bare):
            return
        if current.is_named_by(text, bare):
            self._finish(current.complete(bare, number), current.original, number)
            return
        current.since_frame += 1
        self._took = text[:1] in (" ", "\t")
        if current.since_frame > (12 if current.style == "python" else 400):
            self._give_up(out)
            self._idle(text, number, out)

    def _dump(self, text: str, number: int, out: list[Crash]) -> None:
        """Inside a stack of faulthandler; the first one after its headline belongs to the thread that crashed."""
        current = self._open
        assert current is not None
        bare = text.strip()
        if current.takes_frame(text, bare) or bare == "...":
            # The line is one for the patterns too: where a live process stands may say what it waits for.
            self._took = False
            return
        self._give_up(out)
        if bare:
            self._idle(text, number, out)

    def _finish(self, crash: Crash, original: bool, number: int) -> None:
        if original and self._done is not None:
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
        if (shapes.CAUSE in text or shapes.CONTEXT in text) and not done.bare:
            self._relation = "cause" if shapes.CAUSE in text else "context"
            self._earlier, self._done = done, None
            return
        if shapes.FRAME.match(text) and done.type.startswith("ray.") and not self._blank:
            self._open = OpenTraceback(first_line=number, known=self._known, original=True)
            self._open.takes_frame(text, bare)
            return
        indented = text.startswith(("  ", "\t"))
        new = shapes.BARE.match(bare) if not indented else None
        if new is not None and _same(new, done):
            return
        if self._marked and not self._named_marked:
            # The message had no time or level in front, this line has: another entry of the log.
            self._flush(out)
            self._idle(text, number, out)
            return
        noise = shapes.PROGRESS_BAR.match(text) is not None or (not indented and shapes.NOISE.match(bare) is not None)
        if self._blank or self._run_on >= MOST_CONTINUATION or new is not None or noise or (not indented and self._run_on >= 12):
            # What follows a blank line may still be the inner traceback of an empty message; wait for it.
            if self._blank and (shapes.terminated(done.message) or not done.message) and self._run_on < 4 and bare.startswith("-- Process"):
                self._run_on += 1
                done.message = done.message or bare[:LONGEST_SOURCE]
                return
            self._flush(out)
            self._idle(text, number, out)
            return
        self._run_on += 1
        if len(done.message) < LONGEST_MESSAGE:
            done.message = (done.message + "\n" + text.rstrip())[:LONGEST_MESSAGE]

    def _idle(self, text: str, number: int, out: list[Crash]) -> None:
        self._took = False
        if 'File "' in text and (shapes.FRAME.match(text) or shapes.SPLIT_FRAME.match(text)):
            self._open = OpenTraceback(first_line=number, known=self._known)
            self._open.takes_frame(text, text.strip())
            self._took = True
            return
        if "Exception ignored in" in text or "Error in atexit" in text:
            self._ignored = True
            return
        if shapes.CAUSE in text or shapes.CONTEXT in text:
            return
        bare = text.strip()
        if bare.startswith(shapes.FATAL + ": "):
            self._fatal, self._fatal_line = bare[len(shapes.FATAL) + 2 :][:200], number
            return
        found = shapes.BARE.match(bare)
        if found is not None and not shapes.RAISE.match(text):
            name, message = shapes.once(found["type"], (found["message"] or "").strip())
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
        if current.style == "dump":
            if self._fatal:
                self._flush(out)
                frames = current.frames[::-1]
                out.append(
                    Crash(type=shapes.FATAL, message=self._fatal, frames=frames, first_line=self._fatal_line, last_line=self._fatal_line)
                )
                self._fatal = ""
            return
        if current.original and self._done is not None:
            self._done.chain = [Link(type="", frames=current.frames, relation="cause"), *self._done.chain]
            return
        if self._earlier is not None:
            out.append(self._earlier)
            self._earlier = None
        self._flush(out)
        out.append(current.truncated())


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
