"""What every Checkpoint promises."""

import pytest

from firstfault_server.core.search import Text
from firstfault_server.ports import Commit, ListQuery
from tests.contract.conftest import EmbeddedStores as Stores
from tests.contract.records import NOW_NS, incident, message, run


@pytest.fixture
def stores(embedded_stores: Stores) -> Stores:
    """Under the name that tests of all stores use."""
    return embedded_stores


def test_nothing_committed_is_no_position(stores: Stores) -> None:
    assert stores.checkpoint.position() is None
    assert list(stores.checkpoint.snapshots()) == []


def test_a_commit_is_seen_by_every_store(stores: Stores) -> None:
    stores.checkpoint.commit(
        Commit(position="0001", snapshots={("run", "acme/r-1"): b"state"}, incidents=[incident(1)], runs=[run(1)], messages=[message(1)])
    )
    assert stores.checkpoint.position() == "0001"
    assert stores.incidents.incident("acme", "i-0001") == incident(1)
    assert stores.incidents.run("acme", "r-1") == run(1)
    assert stores.outbox.due(NOW_NS, 10) == [message(1)]
    assert len(stores.incidents.incidents(ListQuery(tenant="acme", where=Text(value="failure")), NOW_NS).items) == 1


def test_snapshots_are_replaced_and_removed(stores: Stores) -> None:
    stores.checkpoint.commit(Commit(position="1", snapshots={("worker", "a"): b"1", ("worker", "b"): b"1", ("run", "a"): b"1"}))
    stores.checkpoint.commit(Commit(position="2", snapshots={("worker", "a"): b"2", ("worker", "b"): None, ("worker", "never"): None}))
    assert sorted(stores.checkpoint.snapshots()) == [("run", "a", b"1"), ("worker", "a", b"2")]
    assert stores.checkpoint.position() == "2"


def test_the_same_commit_twice_is_once(stores: Stores) -> None:
    commit = Commit(position="1", incidents=[incident(1)], runs=[run(1)], messages=[message(1)])
    stores.checkpoint.commit(commit)
    stores.checkpoint.commit(commit)
    assert len(stores.incidents.revisions("acme", "i-0001")) == 1
    assert len(stores.outbox.messages("acme", "i-0001")) == 1
