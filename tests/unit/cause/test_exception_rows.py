"""Rows for exceptions that are found by pieces of text are those that would hold if every row were asked."""

from hypothesis import given
from hypothesis import strategies as st

from firstfault_server.core.cause.patterns import PIECE, Matcher, clipped
from firstfault_server.core.grouping.fingerprint import short_type
from firstfault_server.tables import load_tables

PATTERNS = load_tables().patterns
MATCHER = Matcher(PATTERNS)
LITERALS = sorted({literal for row in PATTERNS.patterns for literal in row.has})
TYPES = ("RuntimeError", "torch.OutOfMemoryError", "KeyError", "OSError", "AssertionError", "x.y.CustomError", "")


def holding(type_name: str, text: str) -> list[str]:
    """Ids of the rows that hold, by asking each."""
    text = clipped(text)
    rows = MATCHER._exception._rows
    return [row.pattern.id for row in rows if row.match(text, text.lower(), type_name, "", "") is not None]


def found(type_name: str, text: str) -> list[str]:
    text = clipped(text)
    rows = MATCHER._exception.for_text(type_name, text.lower())
    return [row.pattern.id for row in rows if row.match(text, text.lower(), type_name, "", "") is not None]


def test_every_example_finds_the_same_rows() -> None:
    for row in PATTERNS.patterns:
        for example in (*row.examples, *row.near_misses):
            name = short_type(example.partition(":")[0])
            assert found(name, example) == holding(name, example), example


@given(st.sampled_from(TYPES), st.lists(st.sampled_from(LITERALS) | st.text(max_size=20), max_size=4))
def test_any_text_finds_the_same_rows(type_name: str, parts: list[str]) -> None:
    text = f"{type_name}: {' '.join(parts)}"
    assert found(short_type(type_name), text) == holding(short_type(type_name), text)


def test_few_rows_are_asked() -> None:
    asked = MATCHER._exception.for_text("RuntimeError", "runtimeerror: part 7 of x went wrong")
    assert len(asked) < len(MATCHER._exception._rows) / 4
    assert PIECE >= 3
