"""Compiles a search expression into Elasticsearch's query language; values only ever become values."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeAlias

from firstfault_server.adapters.elasticsearch.templates import LONGEST_VALUE
from firstfault_server.core import attempts, model
from firstfault_server.core.search import And, Expression, Not, Or, Term, Text
from firstfault_server.core.search_fields import Fields
from firstfault_server.core.search_match import bounds, check, sequences
from firstfault_server.ports import ListQuery

Query: TypeAlias = dict[str, Any]
EVERYTHING: Final[Query] = {"match_all": {}}
NOTHING: Final[Query] = {"match_none": {}}
LOWEST, HIGHEST = -(1 << 63), (1 << 63) - 1


def long(number: int) -> int:
    """The number, or the nearest that a field of 64 bits holds."""
    return min(max(number, LOWEST), HIGHEST)


def plain(text: str) -> str:
    """Text as it is stored: what is not Unicode (lone surrogates) is escaped."""
    return text.encode("utf-8", "backslashreplace").decode()


def exactly(field: str, value: str) -> Query:
    """The field has just this value. Longer values than are kept for searches match nothing."""
    return {"term": {field: {"value": plain(value)}}} if len(value) <= LONGEST_VALUE else NOTHING


def plain_field(term: Term) -> Query | None:
    """For kinds of things of which every key is a field."""
    return None


def compile_query(
    query: ListQuery, fields: Fields, texts: Sequence[str] = (), special: Callable[[Term], Query | None] = plain_field, within: str = ""
) -> Query:
    """The query of a list request, tenant and period included. Raises SearchError.

    `texts` are the fields with words. `special` answers terms that are no plain field, and None for all others. `within` starts the
    names of the fields when the thing is part of a document.
    """
    check(query.where, fields)
    compiler = _Compiler(fields, texts, special, within)
    filters: list[Query] = [exactly(f"{within}tenant", query.tenant), compiler.compile(query.where)]
    period = between(query.since_ns, query.until_ns)
    if period:
        filters.append({"range": {f"{within}time_ns": period}})
    return {"bool": {"filter": filters}}


def between(since_ns: int | None, until_ns: int | None) -> dict[str, int]:
    """Bounds of a half-open period."""
    bound = {"gte": since_ns, "lt": until_ns}
    return {operator: long(value) for operator, value in bound.items() if value is not None}


class _Compiler:
    def __init__(self, fields: Fields, texts: Sequence[str], special: Callable[[Term], Query | None], within: str) -> None:
        self._fields, self._texts, self._special, self._within = fields, texts, special, within

    def compile(self, expression: Expression) -> Query:
        if isinstance(expression, And):
            return {"bool": {"filter": [self.compile(part) for part in expression.parts]}} if expression.parts else EVERYTHING
        if isinstance(expression, Or):
            return any_of(self.compile(part) for part in expression.parts)
        if isinstance(expression, Not):
            return {"bool": {"must_not": [self.compile(expression.part)]}}
        if isinstance(expression, Text):
            return self._text(expression)
        return self._special(expression) or self._term(expression)

    def _text(self, text: Text) -> Query:
        runs = sequences(text)
        if not runs:
            return NOTHING
        return {"bool": {"filter": [any_of({"match_phrase": {field: " ".join(run)}} for field in self._texts) for run in runs]}}

    def _term(self, term: Term) -> Query:
        field = self._fields[term.key]
        if field.type == "number":
            return number_range(f"{self._within}search.{term.key}", *bounds(term, field))
        return exactly(f"{self._within}search.{term.key}", term.value)


def number_range(field: str, low: int | None, high: int | None) -> Query:
    """Numbers between two bounds, both included; documents without the field never match."""
    return {"range": {field: {operator: long(value) for operator, value in (("gte", low), ("lte", high)) if value is not None}}}


def any_of(queries: Iterable[Query]) -> Query:
    """At least one holds."""
    parts = list(queries)
    return {"bool": {"should": parts, "minimum_should_match": 1}} if parts else NOTHING


def in_attempts(low: int | None, high: int | None, runs: Iterable[model.RunStatus]) -> Query:
    """Events of attempts `low` to `high`: as they say themselves, else by when they happened (`core.search_fields.attempt_at`)."""
    whole: list[str] = []
    parts: list[Query] = []
    for run in runs:
        listed = attempts.starts(run)
        if not listed:
            if (low is None or run.attempt >= low) and (high is None or run.attempt <= high):
                whole.append(run.run)
            continue
        starts, before = [started for _, started in listed], listed[0][0] - 1
        # From here on attempts are numbered as they are listed.
        first, last = max((low or 1) - before, 1), len(starts) if high is None else min(high - before, len(starts))
        if first > last:
            continue
        since = min(starts[first - 1 : last]) if first > 1 else None
        until = min(starts[last:], default=None)
        if since is None and until is None:
            whole.append(run.run)
        else:
            parts.append({"bool": {"filter": [{"term": {"search.run": run.run}}, {"range": {"time_ns": between(since, until)}}]}})
    says_nothing = {"exists": {"field": "search.attempt"}}
    silent = {"bool": {"must_not": [says_nothing], "filter": [any_of([{"terms": {"search.run": whole}}, *parts])]}}
    return any_of([number_range("search.attempt", low, high), silent])
