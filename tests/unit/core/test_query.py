"""The search language: what it means, where it fails, and that nothing it is given breaks it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstfault_server.core.query import MAX_DEPTH, MAX_LENGTH, MAX_PARTS, QueryError, parse
from firstfault_server.core.search import And, Expression, Not, Or, Term, Text
from firstfault_server.core.search_fields import EVENT, INCIDENT
from firstfault_server.core.search_match import check


def _is(value: str) -> Term:
    return Term(key="is", value=value)


def _run(value: str) -> Term:
    return Term(key="run", value=value)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", And()),
        ("  ", And()),
        ("is:open", _is("open")),
        ("is:open run:xyz", And(parts=(_is("open"), _run("xyz")))),
        ("is:open AND run:xyz", And(parts=(_is("open"), _run("xyz")))),
        ("run:a OR run:b", Or(parts=(_run("a"), _run("b")))),
        ("run:a run:b OR is:open", Or(parts=(And(parts=(_run("a"), _run("b"))), _is("open")))),
        ("run:a (run:b OR is:open)", And(parts=(_run("a"), Or(parts=(_run("b"), _is("open")))))),
        ("!is:muted", Not(part=_is("muted"))),
        ("!(is:open)", Not(part=_is("open"))),
        ("!!is:open", Not(part=Not(part=_is("open")))),
        ("rank:>8", Term(key="rank", value="8", operator=">")),
        ("rank:>=8", Term(key="rank", value="8", operator=">=")),
        ("rank:<=8", Term(key="rank", value="8", operator="<=")),
        ("severity:>=error", Term(key="severity", value="error", operator=">=")),
        ("node:h100-07", Term(key="node", value="h100-07")),
        ("node:h100-07.example.org:8080", Term(key="node", value="h100-07.example.org:8080")),
        ('run:"a b"', _run("a b")),
        ('run:"a \\"b\\" \\\\"', _run('a "b" \\')),
        ("run:>8", _run(">8")),
        ("memory", Text(value="memory")),
        ("or", Text(value="or")),
        ('"out of memory"', Text(value="out of memory", phrase=True)),
        ('"AND"', Text(value="AND", phrase=True)),
        ('"run:a"', Text(value="run:a", phrase=True)),
        ('""', And()),
        ("显存 不足", And(parts=(Text(value="显存"), Text(value="不足")))),
        ('is:open "free text"', And(parts=(_is("open"), Text(value="free text", phrase=True)))),
    ],
)
def test_what_a_query_means(query: str, expected: Expression) -> None:
    assert parse(query) == expected


@pytest.mark.parametrize(
    ("query", "position", "word"),
    [
        ("is:open colour:red", 8, "colour"),
        ("RuntimeError: CUDA", 0, "quote"),
        ("is:", 3, "value"),
        ("is: open", 3, "value"),
        ("is:shut", 3, "shut"),
        ("rank:eight", 5, "eight"),
        ("rank:>", 6, "value"),
        ("rank:1.5", 5, "1.5"),
        ("(is:open", 0, "closed"),
        ("is:open)", 7, "parenthesis"),
        ("()", 1, "term"),
        ("is:open OR", 10, "ends"),
        ("OR is:open", 0, "term"),
        ("is:open AND OR run:a", 12, "term"),
        ("!", 1, "ends"),
        ('"open', 0, "quote"),
        ('run:"open', 4, "quote"),
        ("run:(a)", 4, "quotes"),
    ],
)
def test_where_a_query_fails(query: str, position: int, word: str) -> None:
    with pytest.raises(QueryError) as failure:
        parse(query)
    assert failure.value.position == position
    assert word in failure.value.reason


def test_keys_depend_on_the_list() -> None:
    assert parse("trace:abc", EVENT) == Term(key="trace", value="abc")
    with pytest.raises(QueryError):
        parse("trace:abc", INCIDENT)


@pytest.mark.parametrize(
    "query",
    ["(" * (MAX_DEPTH + 2) + "a" + ")" * (MAX_DEPTH + 2), "!" * (MAX_DEPTH + 2) + "a", "a " * (MAX_PARTS + 1), "a" * (MAX_LENGTH + 1)],
)
def test_queries_are_bounded(query: str) -> None:
    with pytest.raises(QueryError):
        parse(query)


def test_the_deepest_query_is_accepted() -> None:
    assert parse("(" * MAX_DEPTH + "a" + ")" * MAX_DEPTH) == Text(value="a")


_PIECES = st.sampled_from(
    ["is:open", "run:", "rank:>", "(", ")", "!", " ", '"', "\\", "AND", "OR", "a", ":", "node:x-1", "\x00", "é", "\u2028"]
)


@given(st.one_of(st.text(max_size=80), st.lists(_PIECES, max_size=40).map("".join)))
def test_any_text_parses_or_says_where_it_does_not(query: str) -> None:
    try:
        parsed = parse(query)
    except QueryError as error:
        assert 0 <= error.position <= len(query)
    else:
        check(parsed, INCIDENT)


@given(st.sampled_from(["run", "node", "owner"]), st.text(min_size=1, max_size=40))
def test_a_quoted_value_is_taken_verbatim(key: str, value: str) -> None:
    quoted = value.replace("\\", "\\\\").replace('"', '\\"')
    assert parse(f'{key}:"{quoted}"') == Term(key=key, value=value)
