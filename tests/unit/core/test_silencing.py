"""Which silences hold for which incident, and when."""

import pytest

from firstfault_server.core import model
from firstfault_server.core.query import QueryError
from firstfault_server.core.silencing import matcher, rules_of, silencing, state_at
from tests.contract.records import NOW_NS, incident


def silence(where: str, starts: int = 0, ends: int = 10) -> model.Silence:
    return model.Silence(
        id=where, tenant="acme", where=where, starts_ns=NOW_NS + starts, ends_ns=NOW_NS + ends, author="ada", comment="c", created_ns=NOW_NS
    )


def test_both_ends_are_half_open() -> None:
    one = silence("is:open", 0, 10)
    assert [state_at(one, NOW_NS + after) for after in (-1, 0, 9, 10)] == ["pending", "active", "active", "ended"]


def test_those_that_hold_and_select_are_named() -> None:
    rules, broken = rules_of(
        [silence("symptom:cuda_oom"), silence("symptom:hang"), silence("run:r-1", 5), silence("is:muted"), silence("a:b")]
    )
    assert [(one.where, type(error)) for one, error in broken] == [("a:b", QueryError)]
    marks = model.Triage(tenant="acme", incident="i-0001")
    assert [one.where for one in silencing(rules, incident(1), marks, NOW_NS)] == ["symptom:cuda_oom"]
    muted = model.Triage(tenant="acme", incident="i-0001", muted_until_ns=NOW_NS + 100)
    assert [one.where for one in silencing(rules, incident(1), muted, NOW_NS + 5)] == ["symptom:cuda_oom", "run:r-1", "is:muted"]
    assert silencing(rules, incident(1), marks, NOW_NS + 10) == []


@pytest.mark.parametrize("where", ["", "   ", '""', '"  "'])
def test_a_search_that_selects_everything_is_refused(where: str) -> None:
    with pytest.raises(QueryError):
        matcher(where)
