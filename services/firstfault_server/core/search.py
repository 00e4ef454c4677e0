"""The `q=` search: expression tree. Adapters compile it to their own query language; nothing is ever concatenated."""

from typing import Literal, TypeAlias

import msgspec

Operator: TypeAlias = Literal["=", ">", ">=", "<", "<="]


class Term(msgspec.Struct, frozen=True, kw_only=True):
    """`key:value`, `key:>8`. Keys: is, run, node, rank, symptom, family, severity, attempt, owner, fingerprint, has."""

    key: str
    value: str
    operator: Operator = "="


class Text(msgspec.Struct, frozen=True, kw_only=True):
    """Free text: all words must occur; a quoted string is a phrase."""

    value: str
    phrase: bool = False


class Not(msgspec.Struct, frozen=True, kw_only=True):
    """`!term`."""

    part: "Expression"


class And(msgspec.Struct, frozen=True, kw_only=True):
    """All parts hold; no parts: everything matches."""

    parts: "tuple[Expression, ...]" = ()


class Or(msgspec.Struct, frozen=True, kw_only=True):
    """At least one part holds."""

    parts: "tuple[Expression, ...]"


Expression: TypeAlias = Term | Text | Not | And | Or
