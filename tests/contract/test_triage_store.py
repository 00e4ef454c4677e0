"""What every TriageStore promises."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from firstfault_server.core import model
from firstfault_server.core.search import Term
from firstfault_server.ports import ListQuery, VersionConflict
from tests.contract.conftest import Stores
from tests.contract.records import DAY_NS, NOW_NS, SECOND_NS, FixedClock, audit


def marks(version: int = 0, **changes: Any) -> model.Triage:
    fields: dict[str, Any] = {"tenant": "acme", "incident": "i-0001", "version": version}
    return model.Triage(**fields | changes)


def test_untouched_is_version_0(stores: Stores) -> None:
    assert stores.triage.triage("acme", "i-0001") == marks()


def test_each_write_raises_the_version(stores: Stores) -> None:
    given = marks(notes=[model.Note(id="n-1", author="ada", time_ns=1, text="looking")])
    first = stores.triage.put_triage(given, audit(1))
    assert first.version == 1
    assert given.version == 0
    second = stores.triage.put_triage(marks(1, assignee="grace"), audit(2))
    assert second == stores.triage.triage("acme", "i-0001") == marks(2, assignee="grace")
    assert stores.triage.triage("other", "i-0001").version == 0


def test_a_conflict_changes_and_records_nothing(stores: Stores) -> None:
    stores.triage.put_triage(marks(ack_by="ada"), audit(1))
    for version in (0, 2):
        with pytest.raises(VersionConflict):
            stores.triage.put_triage(marks(version, ack_by="grace"), audit(2))
    assert stores.triage.triage("acme", "i-0001").ack_by == "ada"
    assert [item.id for item in stores.triage.audit(ListQuery(tenant="acme")).items] == ["a-0001"]


def test_of_many_at_once_one_wins(stores: Stores) -> None:
    def attempt(number: int) -> bool:
        try:
            stores.triage.put_triage(marks(ack_by=f"person {number}"), audit(number))
        except VersionConflict:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(attempt, range(8)))
    assert won.count(True) == 1
    assert stores.triage.triage("acme", "i-0001").ack_by == f"person {won.index(True)}"
    assert [item.id for item in stores.triage.audit(ListQuery(tenant="acme")).items] == [f"a-{won.index(True):04}"]


def test_the_audit_trail_is_newest_first_and_searchable(stores: Stores) -> None:
    for number in range(5):
        stores.triage.put_triage(marks(number), audit(number, actor="ada" if number % 2 else "grace", detail={"n": number}))
    stores.triage.put_triage(marks(tenant="other"), audit(9, tenant="other"))
    page = stores.triage.audit(ListQuery(tenant="acme", limit=2))
    assert [item.detail for item in page.items] == [{"n": 4}, {"n": 3}]
    assert page.next_key is not None
    rest = stores.triage.audit(ListQuery(tenant="acme", after=tuple(page.next_key), where=Term(key="actor", value="grace")))
    assert [item.id for item in rest.items] == ["a-0002", "a-0000"]


def test_an_answer_is_remembered_for_a_day(stores: Stores, clock: FixedClock) -> None:
    assert stores.triage.recall("acme", "key") is None
    stores.triage.remember("acme", "key", "hash", b"answer")
    stores.triage.remember("acme", "key", "other hash", b"later answer")
    assert stores.triage.recall("acme", "key") == ("hash", b"answer")
    assert stores.triage.recall("other", "key") is None
    clock.time_ns += DAY_NS - 1
    assert stores.triage.recall("acme", "key") == ("hash", b"answer")
    clock.time_ns += 1
    assert stores.triage.recall("acme", "key") is None
    stores.triage.remember("acme", "key", "new hash", b"new answer")
    assert stores.triage.recall("acme", "key") == ("new hash", b"new answer")


def test_pruning_drops_entries_that_are_older(stores: Stores) -> None:
    for number in range(4):
        stores.triage.put_triage(marks(number), audit(number))
    stores.triage.put_triage(marks(tenant="other"), audit(0, tenant="other"))
    assert stores.triage.prune_audit(NOW_NS + 2 * SECOND_NS) == 3
    assert [item.id for item in stores.triage.audit(ListQuery(tenant="acme")).items] == ["a-0003", "a-0002"]
    assert stores.triage.prune_audit(NOW_NS + 2 * SECOND_NS) == 0
    assert stores.triage.triage("acme", "i-0001").version == 4
