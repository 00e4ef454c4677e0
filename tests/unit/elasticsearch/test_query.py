"""Which attempt an event belongs to, as a query: equal to the rule of the core."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from firstfault_server.adapters.elasticsearch.query import in_attempts
from firstfault_server.core import model
from firstfault_server.core.search_fields import attempt_at
from tests.contract.records import run

TIMES = st.integers(0, 8)
NUMBERS = st.none() | st.integers(-1, 6)


def holds(query: dict[str, Any], document: dict[str, Any]) -> bool:
    """The part of Elasticsearch's query language that attempts are asked in."""
    ((kind, inside),) = query.items()
    if kind == "bool":
        return (
            all(holds(part, document) for part in inside.get("filter", []))
            and not any(holds(part, document) for part in inside.get("must_not", []))
            and ("should" not in inside or any(holds(part, document) for part in inside["should"]))
        )
    if kind == "match_none":
        return False
    if kind == "exists":
        return inside["field"] in document
    ((field, wanted),) = inside.items()
    if field not in document:
        return False
    value = document[field]
    if kind == "terms":
        return value in wanted
    if kind == "term":
        return bool(value == wanted)
    assert kind == "range"
    checks = {"gte": value >= wanted.get("gte", value), "lte": value <= wanted.get("lte", value), "lt": value < wanted.get("lt", value + 1)}
    assert wanted.keys() <= checks.keys()
    return all(checks.values())


@given(
    starts=st.lists(st.lists(TIMES, max_size=4), max_size=3),
    numbers=st.lists(st.integers(1, 3), min_size=3, max_size=3),
    low=NUMBERS,
    high=NUMBERS,
    own=st.none() | st.integers(1, 4),
    time_ns=TIMES,
    of=st.integers(0, 3),
)
def test_attempts_as_the_core_counts_them(
    starts: list[list[int]], numbers: list[int], low: int | None, high: int | None, own: int | None, time_ns: int, of: int
) -> None:
    runs: list[model.RunStatus] = [
        run(number, run=f"r-{number}", attempt=attempt, attempts_started_ns=times)
        for number, (attempt, times) in enumerate(zip(numbers, starts, strict=False))
    ]
    document: dict[str, Any] = {"search.run": f"r-{of}", "time_ns": time_ns} | ({} if own is None else {"search.attempt": own})
    attempt = own if own is not None else attempt_at(next((each for each in runs if each.run == f"r-{of}"), None), time_ns)
    expected = attempt is not None and (low is None or attempt >= low) and (high is None or attempt <= high)
    assert holds(in_attempts(low, high, runs), document) == expected
