"""Several alerters over one outbox: each message is sent by one of them at a time, and by somebody in the end."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from firstfault_server.adapters.elasticsearch import Connection, ElasticsearchStores, ensure_templates, open_stores
from firstfault_server.ports import Message, Outbox
from tests.contract.records import NOW_NS, SECOND_NS, FixedClock, delivery, message

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]
LEASE_NS = 60 * SECOND_NS


def ids(messages: list[Message]) -> list[str]:
    return [each.id for each in messages]


def due(outbox: Outbox, now_ns: int = NOW_NS, limit: int = 10) -> list[str]:
    return ids(outbox.due(now_ns, limit))


def about(number: int, **changes: Any) -> Message:
    """The opening message of the n-th incident, due the earlier the lower."""
    return message(1, id=f"m-{number:03}", incident=f"i-{number:03}", next_try_ns=NOW_NS - 1000 + number, **changes)


def test_what_one_has_taken_is_not_due_for_another(stores: ElasticsearchStores, others: ElasticsearchStores) -> None:
    stores.outbox.add([about(1), about(2)])
    assert due(stores.outbox, limit=1) == ["m-001"]
    assert due(others.outbox) == ["m-002"]
    assert due(stores.outbox) == ["m-001"]
    assert due(others.outbox) == ["m-002"]


def test_of_many_that_ask_at_once_each_message_goes_to_one(connection: Connection, stores: ElasticsearchStores, clock: FixedClock) -> None:
    stores.outbox.add([about(number) for number in range(60)])
    replicas = [open_stores(connection, clock, f"alerter-{number}") for number in range(6)]
    with ThreadPoolExecutor(len(replicas)) as pool:
        taken = list(pool.map(lambda replica: due(replica.outbox, limit=60), replicas))
    for replica in replicas:
        replica.close()
    assert Counter(name for each in taken for name in each) == Counter(f"m-{number:03}" for number in range(60))


def test_the_messages_of_an_owner_who_died_come_due_after_the_lease(stores: ElasticsearchStores, others: ElasticsearchStores) -> None:
    stores.outbox.add([about(1)])
    assert due(stores.outbox) == ["m-001"]
    assert due(others.outbox, NOW_NS + LEASE_NS - 1) == []
    assert others.outbox.next_due_ns() == NOW_NS + LEASE_NS
    assert due(others.outbox, NOW_NS + LEASE_NS) == ["m-001"]
    assert due(stores.outbox, NOW_NS + LEASE_NS) == []


def test_an_owner_who_goes_on_asking_keeps_what_he_has(stores: ElasticsearchStores, others: ElasticsearchStores) -> None:
    stores.outbox.add([about(1)])
    for seconds in range(0, 200, 20):
        assert due(stores.outbox, NOW_NS + seconds * SECOND_NS) == ["m-001"]
        assert due(others.outbox, NOW_NS + seconds * SECOND_NS) == []


def test_an_owner_who_leaves_in_order_lets_others_go_on_at_once(stores: ElasticsearchStores, others: ElasticsearchStores) -> None:
    stores.outbox.add([about(1), about(2)])
    assert due(stores.outbox) == ["m-001", "m-002"]
    stores.outbox.release()
    assert due(others.outbox) == ["m-001", "m-002"]


def test_the_next_message_of_a_queue_waits_for_the_one_that_another_sends(stores: ElasticsearchStores, others: ElasticsearchStores) -> None:
    stores.outbox.add([message(1), message(2)])
    (first,) = stores.outbox.due(NOW_NS, 10)
    assert due(others.outbox) == []
    first.state = "delivered"
    stores.outbox.record(first, delivery(1, first, delivered=True))
    assert due(others.outbox) == ["i-0001.d-1.2"]


def test_a_try_that_is_recorded_gives_the_message_back(stores: ElasticsearchStores, others: ElasticsearchStores) -> None:
    stores.outbox.add([message(1)])
    (first,) = stores.outbox.due(NOW_NS, 10)
    first.attempts, first.next_try_ns = 1, NOW_NS + 5
    stores.outbox.record(first, delivery(1, first, status=503))
    assert due(others.outbox) == []
    assert ids(taken := others.outbox.due(NOW_NS + 5, 10)) == [first.id]
    assert taken[0].attempts == 1


@pytest.mark.parametrize("late", ["waiting", "failed"])
def test_a_late_failure_does_not_take_back_a_delivery(stores: ElasticsearchStores, others: ElasticsearchStores, late: str) -> None:
    stores.outbox.add([message(1), message(2)])
    (slow,) = stores.outbox.due(NOW_NS, 10)
    (again,) = others.outbox.due(NOW_NS + LEASE_NS, 10)
    again.state = "delivered"
    others.outbox.record(again, delivery(2, again, delivered=True))
    slow.state = late  # type: ignore[assignment]  # one of its values
    stores.outbox.record(slow, delivery(1, slow, error="timed out"))
    assert [each.state for each in stores.outbox.messages("acme", "i-0001")] == ["delivered", "waiting"]
    assert due(stores.outbox, NOW_NS + LEASE_NS) == ["i-0001.d-1.2"]


def test_a_late_failure_does_not_take_the_message_from_its_new_owner(stores: ElasticsearchStores, others: ElasticsearchStores) -> None:
    stores.outbox.add([message(1)])
    (slow,) = stores.outbox.due(NOW_NS, 10)
    assert due(others.outbox, NOW_NS + LEASE_NS) == [slow.id]
    slow.attempts = 1
    stores.outbox.record(slow, delivery(1, slow, error="timed out"))
    assert due(stores.outbox, NOW_NS + LEASE_NS) == []
    assert due(others.outbox, NOW_NS + LEASE_NS) == [slow.id]


def test_of_two_that_plan_the_same_number_the_first_stays_and_both_can_see_it(
    stores: ElasticsearchStores, others: ElasticsearchStores
) -> None:
    planned = [message(1, body=b"the page"), message(1, kind="resolved", body=b"the end")]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda each: each[0].outbox.add([each[1]]), zip((stores, others), planned, strict=True)))
    kept = stores.outbox.messages("acme", "i-0001")
    assert kept == others.outbox.messages("acme", "i-0001")
    assert len(kept) == 1
    assert kept[0] in planned


def test_all_of_a_long_queue_arrive_in_order_over_two_alerters(stores: ElasticsearchStores, others: ElasticsearchStores) -> None:
    names = [f"m-{queue}-{number:02}" for queue in range(4) for number in range(1, 9)]
    stores.outbox.add([message(int(name[-2:]), id=name, incident=f"i-{name[2]}") for name in reversed(names)])
    sent: list[str] = []

    def work(outbox: Outbox) -> None:
        while len(sent) < len(names):
            for each in outbox.due(NOW_NS, 3):
                sent.append(each.id)
                each.state = "delivered"
                outbox.record(each, delivery(1, each, delivered=True))

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(work, [stores.outbox, others.outbox]))
    assert sorted(sent) == names
    for queue in range(4):
        own = [name for name in sent if name.startswith(f"m-{queue}-")]
        assert own == sorted(own)


def test_more_messages_than_one_search_returns(connection: Connection, clock: FixedClock) -> None:
    ensure_templates(connection, replicas=0)
    stores = open_stores(connection, clock, "one")
    waiting = [message(number, id=f"w-{number:04}", next_try_ns=NOW_NS - 5) for number in range(1, 1201)]
    stores.outbox.add([*waiting, about(7)])
    assert due(stores.outbox, limit=2000) == ["m-007", "w-0001"]
    stores.outbox.forget([("acme", "i-0001")])
    assert due(stores.outbox, limit=2000) == ["m-007"]
    stores.close()
