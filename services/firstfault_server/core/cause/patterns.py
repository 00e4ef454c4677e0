"""Rows of the pattern tables as typed values, and the one way to match them: plain substrings first, then a bounded expression."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Literal, TypeAlias

import msgspec

from firstfault_server.core import model

Part: TypeAlias = Literal["exception", "line"]

LAST_RESORT = "fallback"
"""Weight name of rows that count only when no other row holds; they stand last in the table."""
LONGEST_TEXT = 8192
"""Characters of a message or line that are matched, half of them from its end; more is never needed and would cost time."""

LONGEST_OPENING = 1000
"""Characters of a text's opening lines."""
LONGEST_CODE = 300
"""Characters of a source line that are matched."""
PIECE = 4
"""Characters of the pieces of text by which rows for exceptions are found."""


class Pattern(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One rule: what a text must hold, and what it then says.

    All conditions that are given must hold. `has` and `lacks` are compared without regard to case, `text`, `frames` and `code` with it.
    """

    id: str
    symptom: str
    role: model.Role = "initiating"
    weight: str = "strong"
    """A key of the table's `weights`: how much the text says by itself."""
    where: tuple[Part, ...] = ("exception", "line")
    type: str = ""
    """Expression for the whole exception class name without its module."""
    has: tuple[str, ...] = ()
    """Any of these must be in the text."""
    text: str = ""
    """Expression searched in the text; its named groups become facts of the reading."""
    lacks: tuple[str, ...] = ()
    """None of these may be in the text."""
    opening: int = 0
    """Only so many lines of the text count; 0: all. For words that what follows a message may hold as well."""
    frames: str = ""
    """Expression searched in the frames, one `module:function` a line, innermost first."""
    code: str = ""
    """Expression searched in the source line that raised, where it is known."""
    facts: str = ""
    """Expression whose named groups become facts where it is found; it decides nothing."""
    lookup: Literal["", "xid", "signal", "errno"] = ""
    """Code table in which the fact of that name gives symptom and role."""
    example_frames: str = ""
    """Frames the examples are tested with."""
    example_code: str = ""
    """Source line the examples are tested with."""
    domains: dict[str, float] = {}
    """Log-odds that this evidence adds to domains, beyond the symptom's prior."""
    note: str = ""
    examples: tuple[str, ...] = ()
    """Texts it must match, `Type: message` for exceptions."""
    near_misses: tuple[str, ...] = ()
    """Texts that look alike and must not match."""


class PatternTable(msgspec.Struct, kw_only=True, frozen=True):
    """The pattern rows in order (among equals the earlier one wins) and the value of each weight name."""

    weights: dict[str, float]
    """Log-odds of the symptom being the right one, fitted on labelled text by thread."""
    patterns: tuple[Pattern, ...]
    advice_marks: tuple[str, ...] = ()
    """Beginnings of the advice libraries print: never evidence, never part of a fingerprint."""


_LETTERS = {code: " " for code in range(128) if not 97 <= code <= 122}
_COMMON = frozenset(
    (
        *("the", "not", "was", "with", "for", "and", "that", "from", "this", "has", "have", "your", "error", "failed", "info"),
        *("rank", "number", "loss", "grad", "norm", "scale", "step", "iteration", "batch", "time", "memory", "size", "tensor"),
    )
)
"""Words that too many lines hold to tell anything."""


class Hit(msgspec.Struct, kw_only=True, frozen=True):
    """One pattern that holds for a text."""

    pattern: Pattern
    weight: float
    facts: dict[str, str]


def clipped(text: str) -> str:
    """The text as it is matched: head and tail of a very long one."""
    if len(text) <= LONGEST_TEXT:
        return text
    half = LONGEST_TEXT // 2
    return text[:half] + "\n" + text[-half:]


class _Compiled:
    """A pattern with its expressions compiled."""

    __slots__ = ("code", "facts", "frames", "has", "lacks", "pattern", "text", "type", "weight")

    def __init__(self, pattern: Pattern, weight: float) -> None:
        self.pattern = pattern
        self.weight = weight
        self.has = tuple(word.lower() for word in pattern.has)
        self.lacks = tuple(word.lower() for word in pattern.lacks)
        self.type = re.compile(pattern.type) if pattern.type else None
        self.text = re.compile(pattern.text) if pattern.text else None
        self.frames = re.compile(pattern.frames) if pattern.frames else None
        self.code = re.compile(pattern.code) if pattern.code else None
        self.facts = re.compile(pattern.facts) if pattern.facts else None

    def match(self, text: str, lowered: str, type_name: str, frames: str, code: str) -> dict[str, str] | None:
        """Facts when every condition holds, None otherwise."""
        if self.type is not None and not self.type.fullmatch(type_name):
            return None
        if self.pattern.opening:
            text = "\n".join(text.split("\n", self.pattern.opening)[: self.pattern.opening])[:LONGEST_OPENING]
            lowered = text.lower()
        if self.has and not _holds(lowered, self.has):
            return None
        if self.lacks and _holds(lowered, self.lacks):
            return None
        if self.frames is not None and not self.frames.search(frames):
            return None
        if self.code is not None and not self.code.search(code):
            return None
        facts: dict[str, str] = {}
        for expression, needed in ((self.text, True), (self.facts, False)):
            if expression is None:
                continue
            found = expression.search(text)
            if found is not None:
                facts.update((name, value) for name, value in found.groupdict().items() if value is not None)
            elif needed:
                return None
        return facts


def _holds(lowered: str, words: tuple[str, ...]) -> bool:
    for word in words:  # noqa: SIM110 - a generator costs twice as much, and this is the innermost loop
        if word in lowered:
            return True
    return False


class _ExceptionRows:
    """Rows for exceptions, found by type and by pieces of what they want in the text: a flood of errors asks for each anew."""

    def __init__(self, rows: Sequence[_Compiled]) -> None:
        self._rows = rows
        pieces = Counter(piece for row in rows for literal in row.has for piece in _pieces(literal))
        by_piece: dict[str, set[int]] = {}
        wordless: set[int] = set()
        for place, row in enumerate(rows):
            if not row.has or any(len(literal) < PIECE for literal in row.has):
                wordless.add(place)
                continue
            for literal in row.has:
                # The piece that fewest rows share; common words share theirs with many.
                by_piece.setdefault(min(_pieces(literal), key=lambda piece: (pieces[piece], piece)), set()).add(place)
        self._by_piece = {piece: frozenset(places) for piece, places in by_piece.items()}
        self._pieces = frozenset(by_piece)
        self._wordless = frozenset(wordless)
        self._of_type = lru_cache(maxsize=4096)(self._find_of_type)

    def for_text(self, type_name: str, lowered: str) -> list[_Compiled]:
        """Rows that can hold, in order."""
        places = set(self._wordless)
        for piece in self._pieces.intersection(_pieces(lowered)):
            places |= self._by_piece[piece]
        places &= self._of_type(type_name)
        return [self._rows[place] for place in sorted(places)]

    def _find_of_type(self, type_name: str) -> frozenset[int]:
        return frozenset(place for place, row in enumerate(self._rows) if row.type is None or row.type.fullmatch(type_name))


def _pieces(text: str) -> list[str]:
    return [text[at : at + PIECE] for at in range(len(text) - PIECE + 1)]


class Matcher:
    """A table ready to match. Immutable after construction; safe to share between threads."""

    def __init__(self, table: PatternTable) -> None:
        self.table = table
        compiled = [_Compiled(pattern, table.weights[pattern.weight]) for pattern in table.patterns]
        self._exception = _ExceptionRows([row for row in compiled if "exception" in row.pattern.where])
        lines = [row for row in compiled if "line" in row.pattern.where]
        if bare := [row.pattern.id for row in lines if not row.has]:
            raise ValueError(f"patterns for lines need `has`: {', '.join(bare)}")
        self._by_word: dict[str, list[tuple[int, _Compiled]]] = {}
        for place, row in enumerate(lines):
            for word in {_telling_word(literal) for literal in row.has}:
                self._by_word.setdefault(word, []).append((place, row))
        self._words = frozenset(self._by_word)

    def exception(self, type_name: str, text: str, frames: str = "", code: str = "") -> list[Hit]:
        """Patterns that hold for `Type: message`; `type_name` is the class without its module, `code` the line that raised."""
        text = clipped(text)
        lowered = text.lower()
        return list(_hits(self._exception.for_text(type_name, lowered), text, lowered, type_name, frames, code[:LONGEST_CODE]))

    def line(self, text: str) -> list[Hit]:
        """Patterns that hold for one line of output; a row's words count as whole words here, which makes a line cheap."""
        text = clipped(text)
        lowered = text.lower()
        words = self._words.intersection(lowered.translate(_LETTERS).split())
        if not words:
            return []
        rows = {place: row for word in words for place, row in self._by_word[word]}
        return list(_hits([rows[place] for place in sorted(rows)], text, lowered))

    def may_match(self, lowered: str) -> bool:
        """Whether a lower-cased line holds any word that a row for lines wants."""
        return not self._words.isdisjoint(lowered.translate(_LETTERS).split())


def _telling_word(literal: str) -> str:
    """The rarest-looking word of a row's literal: not a common one, and the longest."""
    words = literal.translate(_LETTERS).split()
    if not words:
        raise ValueError(f"{literal!r} holds no letters: a line could not be found by it")
    return max(words, key=lambda word: (word not in _COMMON, len(word)))


def _hits(rows: Sequence[_Compiled], text: str, lowered: str, type_name: str = "", frames: str = "", code: str = "") -> Iterable[Hit]:
    held = False
    for row in rows:
        if held and row.pattern.weight == LAST_RESORT:
            continue
        facts = row.match(text, lowered, type_name, frames, code)
        if facts is not None:
            held = True
            yield Hit(pattern=row.pattern, weight=row.weight, facts=facts)


def strongest(hits: Iterable[Hit]) -> Hit | None:
    """The hit with the highest weight, the earlier row among equals."""
    best: Hit | None = None
    for hit in hits:
        if best is None or hit.weight > best.weight:
            best = hit
    return best
