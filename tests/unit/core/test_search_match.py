"""Words, bounds and limits of a search; what it finds is tested over all stores in tests/contract."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstfault_server.core.buckets import WINDOW_NS, bucket_width
from firstfault_server.core.keyset import start_key
from firstfault_server.core.search import And, Expression, Not, Term, Text
from firstfault_server.core.search_fields import EVENT, EVENT_SEVERITIES, Document, Field
from firstfault_server.core.search_match import MAX_DEPTH, WORD_CHARACTERS, SearchError, bounds, check, matches, sequences, words


def test_words_are_letters_digits_and_underscores_case_folded() -> None:
    assert words("RuntimeError: CUDA_error (719) in /opt/a-b.py, Straße!") == [
        "runtimeerror", "cuda_error", "719", "in", "opt", "a", "b", "py", "strasse"
    ]  # fmt: skip
    assert words(" \n\x00---") == []
    assert words("x" * 1000) == ["x" * WORD_CHARACTERS]


def test_a_dotted_name_is_words_that_stand_together() -> None:
    assert sequences(Text(value="torch.nn OOM")) == [["torch", "nn"], ["oom"]]
    assert sequences(Text(value="torch.nn OOM", phrase=True)) == [["torch", "nn", "oom"]]
    assert sequences(Text(value="-- !!")) == []


def test_a_phrase_does_not_reach_over_two_texts() -> None:
    document = Document(texts=("out of", "memory"))
    assert matches(Text(value="out memory"), document, EVENT)
    assert not matches(Text(value="of memory", phrase=True), document, EVENT)


@pytest.mark.parametrize(
    ("term", "expected"),
    [
        (Term(key="rank", value="8"), (8, 8)),
        (Term(key="rank", value="8", operator=">"), (9, None)),
        (Term(key="rank", value="8", operator=">="), (8, None)),
        (Term(key="rank", value="-8", operator="<"), (None, -9)),
        (Term(key="rank", value="8", operator="<="), (None, 8)),
        (Term(key="severity", value="error"), (17, 20)),
        (Term(key="severity", value="error", operator=">"), (21, None)),
        (Term(key="severity", value="error", operator=">="), (17, None)),
        (Term(key="severity", value="error", operator="<"), (None, 16)),
        (Term(key="severity", value="error", operator="<="), (None, 20)),
    ],
)
def test_bounds(term: Term, expected: tuple[int | None, int | None]) -> None:
    assert bounds(term, Field(type="number", names=EVENT_SEVERITIES if term.key == "severity" else {})) == expected


@pytest.mark.parametrize("value", ["", "x", "1.5", "1e3", "١", "9" * 19, "0x10", " 1"])
def test_what_is_no_whole_number_is_refused(value: str) -> None:
    with pytest.raises(SearchError, match="whole number"):
        bounds(Term(key="rank", value=value), Field(type="number"))


def test_depth_and_size_are_limited() -> None:
    deep: Expression = Text(value="x")
    for _ in range(MAX_DEPTH - 1):
        deep = Not(part=deep)
    check(deep, EVENT)
    with pytest.raises(SearchError, match="too large"):
        check(Not(part=deep), EVENT)
    very_deep: Expression = And()
    for _ in range(100_000):
        very_deep = Not(part=very_deep)
    with pytest.raises(SearchError, match="too large"):
        check(very_deep, EVENT)


@given(since=st.integers(0, 1 << 62), span=st.integers(1, 1 << 60), points=st.integers(1, 2000))
def test_a_bucket_is_whole_windows_and_there_are_not_too_many(since: int, span: int, points: int) -> None:
    width = bucket_width(since, since + span, points)
    assert width % WINDOW_NS == 0
    assert width >= WINDOW_NS
    buckets = (since + span - 1) // width - since // width + 1
    assert buckets <= max(points, 2)


@given(st.lists(st.none() | st.integers() | st.text() | st.floats(), max_size=3))
def test_a_page_key_is_a_time_and_an_id_or_refused(key: list[object]) -> None:
    try:
        found = start_key(key)
    except SearchError:
        return
    assert found is not None
    assert (type(found[0]), type(found[1])) == (int, str)
