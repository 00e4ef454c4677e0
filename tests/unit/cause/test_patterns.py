"""Every row of the pattern table is held to its own examples and near misses."""

import pytest

from firstfault_server.core.cause.patterns import Matcher, Pattern, PatternTable, strongest
from firstfault_server.tables import load_tables

TABLES = load_tables()
MATCHER = Matcher(TABLES.patterns)


def _ids(text: str, where: str, frames: str, code: str) -> list[str]:
    if where == "line":
        return [hit.pattern.id for hit in MATCHER.line(text)]
    name = text.split(":", 1)[0].strip()
    return [hit.pattern.id for hit in MATCHER.exception(name.rsplit(".", 1)[-1], text, frames, code)]


@pytest.mark.parametrize("pattern", TABLES.patterns.patterns, ids=lambda pattern: pattern.id)
def test_examples_match_and_near_misses_do_not(pattern: Pattern) -> None:
    assert pattern.examples, "a row needs an example of its own"
    for example in pattern.examples:
        for where in pattern.where:
            assert pattern.id in _ids(example, where, pattern.example_frames, pattern.example_code), (where, example)
    if pattern.weight != "fallback":
        assert pattern.near_misses, "a row needs a near miss of its own"
    for text in pattern.near_misses:
        for where in pattern.where:
            assert pattern.id not in _ids(text, where, pattern.example_frames, pattern.example_code), text


def test_ids_are_unique_and_every_row_has_a_cheap_condition() -> None:
    rows = TABLES.patterns.patterns
    assert len({row.id for row in rows}) == len(rows)
    assert all(row.has or row.type for row in rows)
    assert all(row.weight in TABLES.patterns.weights for row in rows)


def test_every_symptom_that_text_can_show_has_a_row() -> None:
    said = {row.symptom for row in TABLES.patterns.patterns} | {code.symptom for code in TABLES.codes.xid.values()}
    missing = {name for name, symptom in TABLES.taxonomy.items() if symptom.seen == "explicit"} - said
    assert missing == set()


def test_a_last_resort_row_counts_only_when_nothing_else_holds() -> None:
    rows = (
        Pattern(id="own", symptom="unknown", weight="none", type="Odd", where=("exception",)),
        Pattern(id="any", symptom="python_error", weight="fallback", type=".*", where=("exception",)),
    )
    matcher = Matcher(PatternTable(weights={"none": 0.0, "fallback": 0.3}, patterns=rows))
    hit, other = strongest(matcher.exception("Odd", "Odd: x")), strongest(matcher.exception("Even", "Even: x"))
    assert hit is not None and hit.pattern.id == "own"
    assert other is not None and other.pattern.id == "any"
