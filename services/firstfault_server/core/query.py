"""Parser of the `q=` search language into `core.search` expressions.

Grammar (AND is the default and binds tighter than OR; `!` binds tightest):

    either  = all { "OR" all }
    all     = one { [ "AND" ] one }
    one     = "!" one | "(" either ")" | key ":" [ ">" | ">=" | "<" | "<=" ] value | word | '"' phrase '"'

Values are taken verbatim up to white space or a closing parenthesis; quotes (with `\\"` and `\\\\`) allow anything.
Comparisons apply to numeric keys only, elsewhere `>` is part of the value.
"""

import re
from typing import Final

import msgspec

from firstfault_server.core.search import And, Expression, Not, Operator, Or, Term, Text
from firstfault_server.core.search_fields import INCIDENT, Fields
from firstfault_server.core.search_match import SearchError, check

MAX_LENGTH: Final = 4000
"""Characters of one query."""
MAX_DEPTH: Final = 20
"""Nested parentheses and negations."""
MAX_PARTS: Final = 100
"""Terms and words of one query."""

_KEY = re.compile(r"([A-Za-z_][A-Za-z0-9_.]*):")
_COMPARISON = re.compile(r"(>=|<=|>|<)")
_OPERATORS: Final[dict[str, Operator]] = {">": ">", ">=": ">=", "<": "<", "<=": "<="}


class QueryError(ValueError):
    """The query does not parse; `position` counts characters from 0."""

    def __init__(self, reason: str, position: int) -> None:
        super().__init__(f"{reason} (position {position})")
        self.reason = reason
        self.position = position


class _Token(msgspec.Struct, frozen=True, kw_only=True):
    kind: str
    """One of ( ) ! AND OR part end."""
    position: int
    part: Term | Text | None = None


def parse(text: str, fields: Fields = INCIDENT) -> Expression:
    """Expression of a query; an empty one matches everything. Raises QueryError."""
    if len(text) > MAX_LENGTH:
        raise QueryError(f"the query is longer than {MAX_LENGTH} characters", MAX_LENGTH)
    tokens = _tokens(text, fields)
    if sum(token.kind == "part" for token in tokens) > MAX_PARTS:
        raise QueryError(f"the query has more than {MAX_PARTS} terms", 0)
    if tokens[0].kind == "end":
        return And()
    parser = _Parser(tokens)
    parsed = parser.either(0)
    rest = parser.peek()
    if rest.kind != "end":
        raise QueryError("unexpected closing parenthesis", rest.position)
    return parsed


class _Parser:
    """Recursive descent over the tokens of one query."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._next = 0

    def peek(self) -> _Token:
        return self._tokens[self._next]

    def _take(self) -> _Token:
        token = self._tokens[self._next]
        self._next += 1
        return token

    def either(self, depth: int) -> Expression:
        parts = [self._all(depth)]
        while self.peek().kind == "OR":
            self._take()
            parts.append(self._all(depth))
        return parts[0] if len(parts) == 1 else Or(parts=tuple(parts))

    def _all(self, depth: int) -> Expression:
        parts = [self._one(depth)]
        while self.peek().kind not in {"OR", ")", "end"}:
            if self.peek().kind == "AND":
                self._take()
            parts.append(self._one(depth))
        return parts[0] if len(parts) == 1 else And(parts=tuple(parts))

    def _one(self, depth: int) -> Expression:
        token = self._take()
        if depth > MAX_DEPTH:
            raise QueryError(f"nested deeper than {MAX_DEPTH} levels", token.position)
        if token.kind == "!":
            return Not(part=self._one(depth + 1))
        if token.kind == "(":
            inside = self.either(depth + 1)
            closing = self._take()
            if closing.kind != ")":
                raise QueryError("parenthesis is not closed", token.position)
            return inside
        if token.part is not None:
            return token.part
        if token.kind == "end":
            raise QueryError("the query ends where a term is expected", token.position)
        raise QueryError(f"a term is expected, not {token.kind!r}", token.position)


def _tokens(text: str, fields: Fields) -> list[_Token]:
    tokens: list[_Token] = []
    position = 0
    while position < len(text):
        start = position
        character = text[position]
        if character.isspace():
            position += 1
        elif character in "()!":
            tokens.append(_Token(kind=character, position=start))
            position += 1
        elif character == '"':
            value, position = _quoted(text, position)
            if value.strip():
                tokens.append(_Token(kind="part", position=start, part=Text(value=value, phrase=True)))
        elif match := _KEY.match(text, position):
            part, position = _term(text, match, fields)
            tokens.append(_Token(kind="part", position=start, part=part))
        else:
            word, position = _verbatim(text, position)
            if word in {"AND", "OR"}:
                tokens.append(_Token(kind=word, position=start))
            else:
                tokens.append(_Token(kind="part", position=start, part=Text(value=word)))
    tokens.append(_Token(kind="end", position=len(text)))
    return tokens


def _term(text: str, match: re.Match[str], fields: Fields) -> tuple[Term, int]:
    key, start, position = match.group(1), match.start(), match.end()
    field = fields.get(key)
    if field is None:
        raise QueryError(f"unknown key {key!r}; known are {', '.join(sorted(fields))}; quote free text that holds a colon", start)
    operator: Operator = "="
    if field.type == "number" and (comparison := _COMPARISON.match(text, position)):
        operator = _OPERATORS[comparison.group(1)]
        position = comparison.end()
    value_at = position
    if position < len(text) and text[position] == '"':
        value, position = _quoted(text, position)
    else:
        value, position = _verbatim(text, position)
        if not value:
            raise QueryError(f"{key}: has no value", value_at)
    term = Term(key=key, value=value, operator=operator)
    try:
        check(term, fields)
    except SearchError as error:
        raise QueryError(str(error), value_at) from error
    return term, position


def _verbatim(text: str, position: int) -> tuple[str, int]:
    start = position
    while position < len(text) and not text[position].isspace() and text[position] not in '()"':
        position += 1
    if position == start and position < len(text) and text[position] == "(":
        raise QueryError("a value with parentheses needs quotes", position)
    return text[start:position], position


def _quoted(text: str, position: int) -> tuple[str, int]:
    start = position
    position += 1
    characters: list[str] = []
    while position < len(text):
        character = text[position]
        if character == '"':
            return "".join(characters), position + 1
        if character == "\\" and position + 1 < len(text) and text[position + 1] in '"\\':
            position += 1
            character = text[position]
        characters.append(character)
        position += 1
    raise QueryError("the quote is not closed", start)
