"""What every SilenceStore promises."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from firstfault_server.core import model
from firstfault_server.core.search import And, Expression, Not, Or, Term
from firstfault_server.core.search_match import SearchError
from firstfault_server.ports import MAX_SILENCES, ListQuery, NotFound, VersionConflict
from tests.contract.conftest import Stores
from tests.contract.records import NOW_NS, SECOND_NS, audit


def silence(number: int, **changes: Any) -> model.Silence:
    """The n-th silence, made a second after the one before; active from NOW_NS for an hour."""
    fields: dict[str, Any] = {
        "id": f"s-{number:04}",
        "tenant": "acme",
        "where": 'run:r-1 "bad node"',
        "starts_ns": NOW_NS,
        "ends_ns": NOW_NS + 3600 * SECOND_NS,
        "author": "ada",
        "comment": "the node is being replaced",
        "created_ns": NOW_NS + number * SECOND_NS,
    }
    return model.Silence(**fields | changes)


def put(stores: Stores, made: model.Silence) -> model.Silence:
    return stores.silences.put_silence(made, audit(1, id=f"{made.tenant}-{made.id}-{made.version}", tenant=made.tenant, subject=made.id))


def found(stores: Stores, where: Expression, now_ns: int = NOW_NS) -> list[str]:
    return [one.id for one in stores.silences.silences(ListQuery(tenant="acme", where=where), now_ns).items]


def test_a_silence_comes_back_whole_and_belongs_to_a_tenant(stores: Stores) -> None:
    given = silence(1)
    written = put(stores, given)
    assert (written.version, given.version) == (1, 0)
    assert stores.silences.silence("acme", "s-0001") == written == silence(1, version=1)
    for tenant, name in (("acme", "s-0002"), ("other", "s-0001")):
        with pytest.raises(NotFound):
            stores.silences.silence(tenant, name)
    assert stores.silences.silences(ListQuery(tenant="other"), NOW_NS).items == []
    assert stores.silences.ending_after("other", 0) == []


def test_each_write_raises_the_version_and_leaves_an_entry(stores: Stores) -> None:
    put(stores, silence(1))
    ended = put(stores, silence(1, version=1, ends_ns=NOW_NS + SECOND_NS))
    assert ended.version == 2
    assert stores.silences.silence("acme", "s-0001") == ended
    assert {entry.id for entry in stores.triage.audit(ListQuery(tenant="acme")).items} == {"acme-s-0001-0", "acme-s-0001-1"}


def test_a_conflict_changes_and_records_nothing(stores: Stores) -> None:
    put(stores, silence(1))
    for version in (0, 2):
        with pytest.raises(VersionConflict):
            put(stores, silence(1, version=version, comment="another"))
    with pytest.raises(VersionConflict):
        put(stores, silence(2, version=1))
    assert stores.silences.silence("acme", "s-0001").comment == "the node is being replaced"
    assert [entry.id for entry in stores.triage.audit(ListQuery(tenant="acme")).items] == ["acme-s-0001-0"]


def test_of_many_at_once_one_wins(stores: Stores) -> None:
    def attempt(number: int) -> bool:
        try:
            stores.silences.put_silence(silence(1, author=f"person {number}"), audit(number))
        except VersionConflict:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(attempt, range(8)))
    assert won.count(True) == 1
    assert stores.silences.silence("acme", "s-0001").author == f"person {won.index(True)}"
    assert [entry.id for entry in stores.triage.audit(ListQuery(tenant="acme")).items] == [f"a-{won.index(True):04}"]


def test_lists_are_newest_first_in_pages(stores: Stores) -> None:
    for number in (3, 1, 5, 2, 4):
        put(stores, silence(number))
    put(stores, silence(9, tenant="other"))
    page = stores.silences.silences(ListQuery(tenant="acme", limit=2), NOW_NS)
    assert [one.id for one in page.items] == ["s-0005", "s-0004"]
    assert page.next_key is not None
    rest = stores.silences.silences(ListQuery(tenant="acme", after=tuple(page.next_key)), NOW_NS)
    assert [one.id for one in rest.items] == ["s-0003", "s-0002", "s-0001"]
    assert rest.next_key is None
    period = ListQuery(tenant="acme", since_ns=NOW_NS + 2 * SECOND_NS, until_ns=NOW_NS + 4 * SECOND_NS)
    assert [one.id for one in stores.silences.silences(period, NOW_NS).items] == ["s-0003", "s-0002"]


def test_state_is_a_matter_of_time_and_both_ends_are_half_open(stores: Stores) -> None:
    put(stores, silence(1, starts_ns=NOW_NS + 10, ends_ns=NOW_NS + 20))
    for now_ns, state in ((9, "pending"), (10, "active"), (19, "active"), (20, "ended")):
        for asked in ("pending", "active", "ended"):
            assert found(stores, Term(key="is", value=asked), NOW_NS + now_ns) == (["s-0001"] if asked == state else []), (now_ns, asked)


def test_searches_combine(stores: Stores) -> None:
    put(stores, silence(1, author="grace"))
    put(stores, silence(2, ends_ns=NOW_NS))
    put(stores, silence(3, starts_ns=NOW_NS + 1))
    active, ended, grace = Term(key="is", value="active"), Term(key="is", value="ended"), Term(key="author", value="grace")
    assert found(stores, Or(parts=(active, ended))) == ["s-0002", "s-0001"]
    assert found(stores, Not(part=active)) == ["s-0003", "s-0002"]
    assert found(stores, And(parts=(active, grace))) == ["s-0001"]
    for wrong in (Term(key="is", value="open"), Term(key="run", value="r-1")):
        with pytest.raises(SearchError):
            found(stores, wrong)


def test_those_that_end_later_are_found_oldest_first(stores: Stores) -> None:
    for number, ends in ((2, 30), (1, 20), (3, 10)):
        put(stores, silence(number, starts_ns=NOW_NS - 5, ends_ns=NOW_NS + ends))
    assert [one.id for one in stores.silences.ending_after("acme", NOW_NS)] == ["s-0001", "s-0002", "s-0003"]
    assert [one.id for one in stores.silences.ending_after("acme", NOW_NS + 10)] == ["s-0001", "s-0002"]
    assert stores.silences.ending_after("acme", NOW_NS + 30) == []


def test_of_very_many_those_that_end_last_count(stores: Stores) -> None:
    for number in range(MAX_SILENCES + 3):
        put(stores, silence(number, ends_ns=NOW_NS + SECOND_NS * (number + 1)))
    assert [one.id for one in stores.silences.ending_after("acme", NOW_NS)][:2] == ["s-0003", "s-0004"]


def test_pruning_drops_what_ended_earlier(stores: Stores) -> None:
    put(stores, silence(1, ends_ns=NOW_NS - 1))
    put(stores, silence(2, ends_ns=NOW_NS))
    put(stores, silence(3, tenant="other", ends_ns=NOW_NS - 1))
    assert stores.silences.prune_silences(NOW_NS) == 2
    assert found(stores, And()) == ["s-0002"]
    assert stores.silences.prune_silences(NOW_NS) == 0
