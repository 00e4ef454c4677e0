"""Checks a search expression against the keys there are, cuts text into words, and evaluates an expression on a document."""

import re
from typing import Final

from firstfault_server.core.search import And, Expression, Not, Or, Term, Text
from firstfault_server.core.search_fields import Document, Field, Fields

MAX_PARTS: Final = 200
"""Terms of one expression; more is nothing that a person wrote."""
MAX_DEPTH: Final = 32
INDEXED_CHARACTERS: Final = 65_536
"""Only the start of a text is searched; a stack trace is at most 64 kB on the wire."""
WORD_CHARACTERS: Final = 200
"""Longer words (encoded data) are cut."""

_WORD: Final = re.compile(r"\w+")
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,18}")


class SearchError(ValueError):
    """The expression asks for something that cannot be asked; the message is for the person who wrote it."""


def words(text: str) -> list[str]:
    """Words of a text as they are searched: letters, digits and underscores, case folded."""
    return [word[:WORD_CHARACTERS] for word in _WORD.findall(text[:INDEXED_CHARACTERS].casefold())]


def sequences(text: Text) -> list[list[str]]:
    """Runs of words that must all occur, each run in this order: one for a phrase, else one per blank-separated part.

    A part such as `torch.nn` is two words that must stand together.
    """
    parts = [text.value] if text.phrase else text.value.split()
    return [run for run in map(words, parts) if run]


def bounds(term: Term, field: Field) -> tuple[int | None, int | None]:
    """Lowest and highest number that a number term accepts, None where it sets no bound. Raises SearchError."""
    low, high = _range(term, field)
    match term.operator:
        case "=":
            return low, high
        case ">":
            return high + 1, None
        case ">=":
            return low, None
        case "<":
            return None, low - 1
        case "<=":
            return None, high


def _range(term: Term, field: Field) -> tuple[int, int]:
    if term.value in field.names:
        return field.names[term.value]
    if not _INTEGER.fullmatch(term.value):
        expected = ", ".join(field.names) or "a whole number"
        raise SearchError(f"{term.key}: expects {expected}, not {term.value!r}")
    return int(term.value), int(term.value)


def check(expression: Expression, fields: Fields) -> None:
    """Raises SearchError for an unknown key, a value or operator its key cannot have, or an expression that is too large."""
    parts = 0
    waiting: list[tuple[Expression, int]] = [(expression, 1)]
    while waiting:
        part, depth = waiting.pop()
        parts += 1
        if parts > MAX_PARTS or depth > MAX_DEPTH:
            raise SearchError(f"the search is too large: at most {MAX_PARTS} parts, {MAX_DEPTH} levels deep")
        if isinstance(part, Not):
            waiting.append((part.part, depth + 1))
        elif isinstance(part, And | Or):
            waiting += [(inner, depth + 1) for inner in part.parts]
        elif isinstance(part, Term):
            _check_term(part, fields)


def _check_term(term: Term, fields: Fields) -> None:
    field = fields.get(term.key)
    if field is None:
        raise SearchError(f"unknown key {term.key!r}; there are {', '.join(sorted(fields))}")
    if field.type == "number":
        bounds(term, field)
    elif term.operator != "=":
        raise SearchError(f"{term.key}: cannot be compared with {term.operator}")
    elif field.type == "flag" and term.value not in field.values:
        raise SearchError(f"{term.key}: expects {', '.join(sorted(field.values))}, not {term.value!r}")


def matches(expression: Expression, document: Document, fields: Fields) -> bool:
    """Whether the document satisfies a checked expression."""
    if isinstance(expression, And):
        return all(matches(part, document, fields) for part in expression.parts)
    if isinstance(expression, Or):
        return any(matches(part, document, fields) for part in expression.parts)
    if isinstance(expression, Not):
        return not matches(expression.part, document, fields)
    if isinstance(expression, Text):
        return _occurs(expression, document)
    values, field = document.values.get(expression.key, ()), fields[expression.key]
    if field.type != "number":
        return expression.value in values
    low, high = bounds(expression, field)
    numbers = [value for value in values if isinstance(value, int)]
    return any((low is None or value >= low) and (high is None or value <= high) for value in numbers)


def _occurs(text: Text, document: Document) -> bool:
    """All runs of words occur; a text without any word is found nowhere."""
    wanted = sequences(text)
    # Words hold no blanks, so a run of words is a piece of text between blanks.
    searched = [f" {' '.join(words(piece))} " for piece in document.texts]
    return bool(wanted) and all(any(f" {' '.join(run)} " in piece for piece in searched) for run in wanted)
