"""What every Outbox promises."""

import msgspec

from firstfault_server.core.search import Term
from firstfault_server.ports import ListQuery
from tests.contract.conftest import Stores
from tests.contract.records import NOW_NS, SECOND_NS, delivery, message


def due(stores: Stores, now_ns: int = NOW_NS, limit: int = 10) -> list[str]:
    return [item.id for item in stores.outbox.due(now_ns, limit)]


def test_a_message_is_added_once(stores: Stores) -> None:
    stores.outbox.add([message(1), message(1, body=b"other")])
    stores.outbox.add([message(1, body=b"third")])
    assert stores.outbox.messages("acme", "i-0001") == [message(1)]
    assert stores.outbox.messages("other", "i-0001") == []


def test_messages_of_one_incident_go_out_in_order(stores: Stores) -> None:
    stores.outbox.add([message(2), message(1), message(3, destination="d-2", id="x")])
    assert set(due(stores)) == {"i-0001.d-1.1", "x"}
    stores.outbox.record(message(1, state="delivered", attempts=1), delivery(1, message(1), delivered=True))
    assert set(due(stores)) == {"i-0001.d-1.2", "x"}


def test_a_message_that_waits_holds_back_the_later_ones(stores: Stores) -> None:
    stores.outbox.add([message(1), message(2)])
    stores.outbox.record(message(1, attempts=1, next_try_ns=NOW_NS + 60 * SECOND_NS, last_error="503"), delivery(1, message(1), status=503))
    assert due(stores) == []
    assert stores.outbox.next_due_ns() == NOW_NS + 60 * SECOND_NS
    assert due(stores, NOW_NS + 60 * SECOND_NS) == ["i-0001.d-1.1"]
    stores.outbox.record(message(1, state="failed", attempts=9), delivery(9, message(1)))
    assert due(stores) == ["i-0001.d-1.2"]


def test_the_longest_due_come_first(stores: Stores) -> None:
    stores.outbox.add([message(1, id=f"m-{age}", incident=f"i-{age}", next_try_ns=NOW_NS - age) for age in (1, 3, 2, -1)])
    assert due(stores) == ["m-3", "m-2", "m-1"]
    assert due(stores, limit=2) == ["m-3", "m-2"]
    assert stores.outbox.next_due_ns() == NOW_NS - 3


def test_an_empty_outbox_has_nothing_due(stores: Stores) -> None:
    assert stores.outbox.next_due_ns() is None
    stores.outbox.add([message(1)])
    stores.outbox.record(message(1, state="delivered"), delivery(1, message(1), delivered=True))
    assert stores.outbox.next_due_ns() is None
    assert due(stores) == []


def test_messages_are_listed_by_destination_and_number(stores: Stores) -> None:
    stores.outbox.add([message(number, destination=place, id=f"{place}.{number}") for place in ("d-2", "d-1") for number in (11, 2, 1)])
    assert [item.id for item in stores.outbox.messages("acme", "i-0001")] == ["d-1.1", "d-1.2", "d-1.11", "d-2.1", "d-2.2", "d-2.11"]


def test_the_delivery_log_is_newest_first_and_searchable(stores: Stores) -> None:
    other = message(1, id="other", destination="d-2", incident="i-0002", kind="test")
    for number in range(3):
        stores.outbox.record(message(1), delivery(number, message(1), status=503, error="busy"))
    stores.outbox.record(message(1, state="delivered"), delivery(3, message(1), status=200, delivered=True))
    stores.outbox.record(other, delivery(4, other))
    first = stores.outbox.deliveries(ListQuery(tenant="acme", limit=2))
    assert [item.attempt for item in first.items] == [4, 3]
    assert first.items[1] == delivery(3, message(1), status=200, delivered=True)
    assert first.next_key is not None
    assert [item.attempt for item in stores.outbox.deliveries(ListQuery(tenant="acme", after=tuple(first.next_key))).items] == [2, 1, 0]
    asked = {
        ("delivered", "true"): [3],
        ("delivered", "false"): [4, 2, 1, 0],
        ("destination", "d-2"): [4],
        ("incident", "i-0002"): [4],
        ("kind", "test"): [4],
    }
    for (key, value), expected in asked.items():
        page = stores.outbox.deliveries(ListQuery(tenant="acme", where=Term(key=key, value=value)))
        assert [item.attempt for item in page.items] == expected
    assert stores.outbox.deliveries(ListQuery(tenant="other")).items == []


def test_what_is_read_is_a_copy(stores: Stores) -> None:
    stores.outbox.add([message(1)])
    read = stores.outbox.due(NOW_NS, 1)[0]
    read.state = "delivered"
    assert stores.outbox.due(NOW_NS, 1) == [message(1)]
    assert msgspec.structs.asdict(stores.outbox.messages("acme", "i-0001")[0])["state"] == "waiting"


def test_pruning_drops_tries_and_leaves_what_was_told(stores: Stores) -> None:
    stores.outbox.add([message(1)])
    told = message(1, state="delivered", attempts=3)
    for number in (1, 2, 3):
        stores.outbox.record(told, delivery(number, told))
    stores.outbox.record(told, delivery(1, told, tenant="other"))
    assert stores.outbox.prune_deliveries(NOW_NS + 3 * SECOND_NS) == 3
    assert [item.attempt for item in stores.outbox.deliveries(ListQuery(tenant="acme")).items] == [3]
    assert stores.outbox.messages("acme", "i-0001") == [told]


def test_messages_go_with_their_incident(stores: Stores) -> None:
    stores.outbox.add([message(1), message(2), message(1, id="x", incident="i-0002"), message(1, id="y", tenant="other")])
    stores.outbox.forget([("acme", "i-0001"), ("acme", "i-0009")])
    assert stores.outbox.messages("acme", "i-0001") == []
    assert [item.id for item in stores.outbox.messages("acme", "i-0002")] == ["x"]
    assert [item.id for item in stores.outbox.messages("other", "i-0001")] == ["y"]
    assert sorted(due(stores)) == ["x", "y"]
