"""Compiles a search expression into a parameterised SQL condition; no value ever becomes part of the SQL text."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

import msgspec

from firstfault_server.core.search import And, Expression, Not, Or, Term, Text
from firstfault_server.core.search_fields import Document, Field, Fields
from firstfault_server.core.search_match import INDEXED_CHARACTERS, WORD_CHARACTERS, bounds, check, sequences, words

Condition: TypeAlias = tuple[str, list[str | int]]


class Target(Protocol):
    """Says how one kind of thing is stored."""

    @property
    def fields(self) -> Fields:
        """The keys it has."""

    def term(self, term: Term, field: Field) -> Condition:
        """Condition of one term."""

    def text(self, match: str) -> Condition:
        """Condition of an FTS5 match expression."""


def compile_expression(expression: Expression, target: Target) -> Condition:
    """The condition of a whole expression. Raises SearchError."""
    check(expression, target.fields)
    return _compile(expression, target)


def _compile(expression: Expression, target: Target) -> Condition:
    if isinstance(expression, And):
        return _all(expression.parts, target)
    if isinstance(expression, Or):
        return _joined(expression.parts, target, " OR ", "0")
    if isinstance(expression, Not):
        sql, values = _compile(expression.part, target)
        # A comparison with a missing value is NULL, which counts as false.
        return f"NOT coalesce({sql}, 0)", values
    if isinstance(expression, Text):
        return _texts([expression], target)
    return target.term(expression, target.fields[expression.key])


def _all(parts: Sequence[Expression], target: Target) -> Condition:
    """All parts hold; texts become one question to the text index, which is best at finding what they have in common."""
    texts = [part for part in parts if isinstance(part, Text)]
    others = [part for part in parts if not isinstance(part, Text)]
    sql, values = _joined(others, target, " AND ", "1")
    if not texts:
        return sql, values
    text_sql, text_values = _texts(texts, target)
    return f"({sql} AND {text_sql})", [*values, *text_values]


def _texts(texts: Sequence[Text], target: Target) -> Condition:
    runs = [sequences(text) for text in texts]
    if not all(runs):
        return "0", []
    return target.text(" AND ".join(f'"{" ".join(words)}"' for run in runs for words in run))


def _joined(parts: Sequence[Expression], target: Target, joint: str, empty: str) -> Condition:
    compiled = [_compile(part, target) for part in parts]
    values = [value for _, inner in compiled for value in inner]
    return (f"({joint.join(sql for sql, _ in compiled)})" if compiled else empty), values


def number_condition(column: str, term: Term, field: Field) -> Condition:
    """Condition of a number term on a column or SQL expression."""
    low, high = bounds(term, field)
    if low is not None and low == high:
        return f"{column} = ?", [low]
    parts = ([f"{column} >= ?"] if low is not None else []) + ([f"{column} <= ?"] if high is not None else [])
    return f"({' AND '.join(parts)})", [bound for bound in (low, high) if bound is not None]


class Columns(msgspec.Struct, frozen=True, kw_only=True):
    """A target whose keys are columns or SQL expressions of one row."""

    fields: Fields
    columns: dict[str, str]
    flags: dict[tuple[str, str], Condition] = {}
    """Conditions of flags that are no column, by (key, value)."""
    fts: Callable[[str], Condition]

    def term(self, term: Term, field: Field) -> Condition:
        """Condition of one term."""
        if field.type == "flag" and (term.key, term.value) in self.flags:
            return self.flags[term.key, term.value]
        column = self.columns[term.key]
        return number_condition(column, term, field) if field.type == "number" else (f"{column} = ?", [term.value])

    def text(self, match: str) -> Condition:
        """Condition of an FTS5 match expression."""
        return self.fts(match)


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """A target whose values lie in the table `term` and whose words lie in `<kind>_text`, both by `doc`."""

    kind: str
    fields: Fields
    muted: Condition | None = None
    """Condition of `is:muted`, the one flag that depends on the present time."""

    def term(self, term: Term, field: Field) -> Condition:
        """Condition of one term."""
        if self.muted is not None and (term.key, term.value) == ("is", "muted"):
            return self.muted
        sql, values = number_condition("number", term, field) if field.type == "number" else ("text = ?", [term.value])
        return f"doc IN (SELECT doc FROM term WHERE kind = ? AND key = ? AND {sql})", [self.kind, term.key, *values]

    def text(self, match: str) -> Condition:
        """Condition of an FTS5 match expression."""
        return f"doc IN (SELECT rowid FROM {self.kind}_text WHERE {self.kind}_text MATCH ?)", [match]


def nowhere(match: str) -> Condition:
    """For things without free text: found by no word."""
    return "0", []


def indexed(text: str) -> str:
    """A text as it goes into an FTS5 table, whose tokenizer then finds the same words as `search_match.words`."""
    text = text[:INDEXED_CHARACTERS]
    # On ASCII without overlong words the tokenizer does just the same; it is ten times as fast.
    plain = text.isascii() and max(map(len, text.split()), default=0) <= WORD_CHARACTERS
    return text if plain else " ".join(words(text))


def indexed_document(document: Document) -> str:
    """All texts of a document; a mark between them keeps phrases within one text."""
    # U+FFFF is no word character, so no search can ask for it; to the ascii tokenizer it is a token.
    return " \uffff ".join(map(indexed, document.texts))
