"""Which silences keep an incident quiet at a time, people's marks included. Pure."""

from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias

import msgspec

from firstfault_server.core import model
from firstfault_server.core.query import QueryError, parse
from firstfault_server.core.search import And, Expression
from firstfault_server.core.search_fields import INCIDENT
from firstfault_server.core.selection import selects

SilenceState: TypeAlias = Literal["pending", "active", "ended"]


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """A silence with its parsed search."""

    silence: model.Silence
    where: Expression


def matcher(where: str) -> Expression:
    """The search of a silence. Raises QueryError; one that would select everything is refused, since it says nothing."""
    parsed = parse(where, INCIDENT)
    if isinstance(parsed, And) and not parsed.parts:
        raise QueryError("a silence needs a search that selects something; is:page selects all that pages", 0)
    return parsed


def state_at(silence: model.Silence, now_ns: int) -> SilenceState:
    """Whether it holds: from its start until just before its end."""
    if now_ns >= silence.ends_ns:
        return "ended"
    return "pending" if now_ns < silence.starts_ns else "active"


def rules_of(silences: Iterable[model.Silence]) -> tuple[list[Rule], list[tuple[model.Silence, QueryError]]]:
    """Silences ready to be applied, and those whose search does not parse (any more): they keep nothing quiet."""
    rules: list[Rule] = []
    broken: list[tuple[model.Silence, QueryError]] = []
    for silence in silences:
        try:
            rules.append(Rule(silence=silence, where=matcher(silence.where)))
        except QueryError as error:
            broken.append((silence, error))
    return rules, broken


def silencing(rules: Sequence[Rule], incident: model.Incident, triage: model.Triage, now_ns: int) -> list[model.Silence]:
    """The silences that hold now and select the incident."""
    return [rule.silence for rule in rules if state_at(rule.silence, now_ns) == "active" and selects(rule.where, incident, triage, now_ns)]
