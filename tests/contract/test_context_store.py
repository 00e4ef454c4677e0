"""What every ContextStore promises."""

import itertools
from typing import Any

import pytest

from firstfault_server.core import model
from firstfault_server.core.search import And, Expression, Not, Or, Term, Text
from firstfault_server.core.search_match import SearchError
from firstfault_server.ports import ListQuery, NotFound, Page, walk
from tests.contract.conftest import Stores
from tests.contract.records import DAY_NS, NOW_NS, SECOND_NS, event, run

OOM = model.ExceptionInfo(
    type="torch.OutOfMemoryError", message="CUDA out of memory. Tried to allocate 20.00 MiB", stacktrace='File "train.py", line 7'
)


def found(stores: Stores, where: Expression, tenant: str = "acme") -> set[str]:
    return {item.id for item in stores.context.events(ListQuery(tenant=tenant, where=where)).items}


def test_an_event_comes_back_whole(stores: Stores) -> None:
    written = event(1, exception=OOM, attributes={"list": [1, "two"], "float": 0.5}, trace_id="abc", step=7, phase="train")
    stores.context.write_events([written])
    assert stores.context.event("acme", "e-0001") == written


def test_an_id_that_is_there_stays_as_it_is(stores: Stores) -> None:
    stores.context.write_events([event(1, body="first"), event(1, body="second")])
    stores.context.write_events([event(1, body="third", received_ns=NOW_NS + 40 * DAY_NS)])
    assert [item.body for item in stores.context.events(ListQuery(tenant="acme")).items] == ["first"]


def test_tenants_do_not_see_each_other(stores: Stores) -> None:
    stores.context.write_events([event(1), event(1, tenant="other", body="theirs")])
    assert stores.context.event("other", "e-0001").body == "theirs"
    assert found(stores, Text(value="theirs")) == set()
    with pytest.raises(NotFound):
        stores.context.event("third", "e-0001")


def test_newest_first_by_event_time_whatever_the_order_of_arrival(stores: Stores) -> None:
    for number in (3, 1, 4, 2):
        stores.context.write_events([event(number, received_ns=NOW_NS - number * 2 * DAY_NS)])
    assert [item.id for item in stores.context.events(ListQuery(tenant="acme")).items] == ["e-0004", "e-0003", "e-0002", "e-0001"]


def test_pages_are_stable_while_newer_events_arrive(stores: Stores) -> None:
    stores.context.write_events([event(number, time_ns=NOW_NS + number // 3) for number in range(20)])
    fresh = itertools.count(100)

    def ask(query: ListQuery) -> Page[model.Event]:
        page = stores.context.events(query)
        stores.context.write_events([event(next(fresh), time_ns=NOW_NS + DAY_NS)])
        return page

    seen = [item.id for item in walk(ask, ListQuery(tenant="acme", limit=6))]
    assert len(seen) == 20
    assert seen == sorted(seen, key=lambda item: (int(item[2:]) // 3, item), reverse=True)
    assert len(set(seen)) == 20


def test_a_page_that_is_exactly_full_has_no_next_one(stores: Stores) -> None:
    stores.context.write_events([event(1), event(2)])
    assert stores.context.events(ListQuery(tenant="acme", limit=2)).next_key is None
    assert stores.context.events(ListQuery(tenant="acme", limit=1)).next_key is not None


def test_a_period_is_half_open(stores: Stores) -> None:
    stores.context.write_events([event(number) for number in range(5)])
    page = stores.context.events(ListQuery(tenant="acme", since_ns=NOW_NS + SECOND_NS, until_ns=NOW_NS + 3 * SECOND_NS))
    assert [item.id for item in page.items] == ["e-0002", "e-0001"]


SEARCHES: list[tuple[Expression, set[int]]] = [
    (Term(key="run", value="r-1"), {1, 2, 3}),
    (Term(key="run", value="r-2"), {4}),
    (Term(key="rank", value="1"), {2}),
    (Term(key="rank", value="0", operator=">"), {2, 3}),
    (Term(key="rank", value="2", operator=">="), {3}),
    (Term(key="rank", value="2", operator="<"), {1, 2}),
    (Not(part=Term(key="rank", value="2", operator="<")), {3, 4}),
    (Term(key="node", value="n-02"), {2}),
    (Term(key="process", value="p-9"), {3}),
    (Term(key="event", value="train.log"), {4}),
    (Term(key="severity", value="error"), {1, 2, 3}),
    (Term(key="severity", value="error", operator=">="), {1, 2, 3}),
    (Term(key="severity", value="error", operator="<"), {4}),
    (Term(key="severity", value="13"), {4}),
    (Term(key="fingerprint", value="f-1"), {1, 2}),
    (Term(key="symptom", value="cuda_oom"), {1}),
    (Term(key="trace", value="abc"), {3}),
    (Term(key="owner", value="grace"), {4}),
    (Term(key="has", value="exception"), {1}),
    (Term(key="has", value="rank"), {1, 2, 3}),
    (Term(key="attempt", value="1"), {1, 2}),
    (Term(key="attempt", value="2"), {3}),
    (Not(part=Term(key="attempt", value="2")), {1, 2, 4}),
    (Text(value="memory cuda"), {1}),
    (Text(value="out of memory", phrase=True), {1}),
    (Text(value="memory out of", phrase=True), set()),
    (Text(value="torch.OutOfMemoryError"), {1}),
    (Text(value="outofmemoryerror torch"), {1}),
    (Text(value="memor"), set()),
    (Text(value="grad_norm"), {4}),
    (Text(value="norm"), set()),
    (Text(value='NEAR("x")'), set()),
    (Text(value='"; DROP TABLE'), set()),
    (Text(value="!!!"), set()),
    (Text(value="STRASSE"), {3}),
    (Not(part=Text(value="number")), {3, 4}),
    (And(parts=(Term(key="run", value="r-1"), Not(part=Term(key="rank", value="0")))), {2, 3}),
    (Or(parts=(Term(key="rank", value="2"), Text(value="cuda"))), {1, 3}),
    (Or(parts=()), set()),
    (And(), {1, 2, 3, 4}),
]
"""What is asked of the events that `test_search` writes, and which of them are found."""


def test_search(stores: Stores) -> None:
    stores.incidents.write_runs([run(1, attempts_started_ns=[NOW_NS, NOW_NS + 3 * SECOND_NS])])
    stores.context.write_events(
        [
            event(1, exception=OOM, fingerprint="f-1", symptom="cuda_oom"),
            event(2, rank=1, node="n-02", fingerprint="f-1", severity=18),
            event(3, rank=2, process="p-9", trace_id="abc", body="Straße 你好"),
            event(4, rank=None, run="r-2", owner="grace", event_name="train.log", severity=13, body="grad_norm exploded"),
        ]
    )
    for where, expected in SEARCHES:
        assert found(stores, where) == {f"e-{number:04}" for number in expected}, where


def test_the_attempt_is_filled_in_once_the_run_is_known(stores: Stores) -> None:
    stores.context.write_events([event(1), event(5), event(6, attempt=7)])
    assert [item.attempt for item in stores.context.events(ListQuery(tenant="acme")).items] == [7, None, None]
    stores.incidents.write_runs([run(1, attempts_started_ns=[NOW_NS + 2 * SECOND_NS, NOW_NS + 4 * SECOND_NS])])
    assert [item.attempt for item in stores.context.events(ListQuery(tenant="acme")).items] == [7, 2, 1]
    assert stores.context.event("acme", "e-0005").attempt == 2


def test_attempts_of_a_run_with_very_many_are_numbered_right(stores: Stores) -> None:
    started = [NOW_NS + number * SECOND_NS for number in range(1, 51)]
    stores.incidents.write_runs([run(1, attempt=90, attempts_started_ns=started)])
    stores.context.write_events([event(number) for number in (0, 1, 2, 50, 60)])
    assert [item.attempt for item in stores.context.events(ListQuery(tenant="acme")).items] == [90, 90, 42, 41, 41]
    assert found(stores, Term(key="attempt", value="90")) == {"e-0050", "e-0060"}
    assert found(stores, Term(key="attempt", value="41", operator="<=")) == {"e-0000", "e-0001"}
    assert found(stores, Term(key="attempt", value="42")) == {"e-0002"}
    assert found(stores, Term(key="attempt", value="1")) == set()


@pytest.mark.parametrize(
    "where",
    [
        Term(key="nothing", value="x"),
        Term(key="rank", value="many"),
        Term(key="run", value="r", operator=">"),
        Term(key="has", value="luck"),
        And(parts=tuple(Text(value="x") for _ in range(1000))),
    ],
)
def test_what_cannot_be_asked_is_an_error(stores: Stores, where: Expression) -> None:
    with pytest.raises(SearchError):
        stores.context.events(ListQuery(tenant="acme", where=where))
    with pytest.raises(SearchError):
        stores.context.fingerprints(ListQuery(tenant="acme", where=where))


def test_a_foreign_page_key_is_an_error(stores: Stores) -> None:
    for key in ((), (1,), ("x", "y"), (1, 2), (1 << 70, "x")):
        with pytest.raises(SearchError):
            stores.context.events(ListQuery(tenant="acme", after=key))


def test_fingerprints_count_and_name(stores: Stores) -> None:
    stores.context.write_events(
        [event(number, fingerprint="f-1", exception=OOM, run=f"r-{number}", node=f"n-{number % 2}") for number in range(12)]
        + [event(20, fingerprint="f-2", symptom="nccl_timeout", body="watchdog"), event(21)]
    )
    first = stores.context.fingerprints(ListQuery(tenant="acme", limit=1))
    assert first.items == [
        {
            "fingerprint": "f-2",
            "symptom": "nccl_timeout",
            "type": "",
            "message": "watchdog",
            "count": 1,
            "first_seen_ns": NOW_NS + 20 * SECOND_NS,
            "last_seen_ns": NOW_NS + 20 * SECOND_NS,
            "runs": ["r-1"],
            "nodes": ["n-01"],
        }
    ]
    assert first.next_key is not None
    second = stores.context.fingerprints(ListQuery(tenant="acme", limit=1, after=tuple(first.next_key)))
    item = second.items[0]
    assert second.next_key is None
    assert (item["fingerprint"], item["type"], item["message"], item["count"]) == ("f-1", OOM.type, OOM.message, 12)
    assert item["runs"] == [f"r-{number}" for number in range(11, 1, -1)]
    assert item["nodes"] == ["n-1", "n-0"]
    assert stores.context.fingerprints(ListQuery(tenant="acme", where=Text(value="watchdog"))).items == first.items


def test_prune_drops_what_was_received_earlier(stores: Stores) -> None:
    stores.context.write_events([event(number, received_ns=NOW_NS + number * DAY_NS // 2) for number in range(6)])
    assert stores.context.prune(NOW_NS + 3 * DAY_NS // 2) == 3
    assert found(stores, And()) == {"e-0003", "e-0004", "e-0005"}
    assert found(stores, Text(value="number")) == {"e-0003", "e-0004", "e-0005"}
    stores.context.write_events([event(9, body="after the cut")])
    assert found(stores, Text(value="cut")) == {"e-0009"}


def test_one_bad_record_costs_no_neighbour(stores: Stores) -> None:
    huge = (1 << 63) + 5
    stores.context.write_events([event(1), event(2, body="lone \ud800 surrogate", time_ns=huge), event(3, body="nul \x00 inside")])
    assert found(stores, And()) == {"e-0001", "e-0002", "e-0003"}
    assert "surrogate" in stores.context.event("acme", "e-0002").body


def letter(number: int, **changes: Any) -> model.DeadLetter:
    """The n-th dead letter, a second after the one before."""
    fields: dict[str, Any] = {
        "id": f"d-{number:04}",
        "tenant": "acme",
        "received_ns": NOW_NS + number * SECOND_NS,
        "reason": "does not parse",
    }
    return model.DeadLetter(**fields | changes)


def letters(stores: Stores, **asked: Any) -> list[str]:
    return [each.id for each in stores.context.dead_letters(ListQuery(**{"tenant": "acme", **asked})).items]


def test_dead_letters_are_kept_once(stores: Stores) -> None:
    kept = letter(1, signal="logs", data=b"\xff\x00")
    stores.context.write_dead_letters([kept, kept])
    assert stores.context.dead_letters(ListQuery(tenant="acme")).items == [kept]
    assert stores.context.dead_letter("acme", "d-0001") == kept
    stores.context.prune(NOW_NS + 2 * SECOND_NS)
    assert letters(stores) == []
    with pytest.raises(NotFound):
        stores.context.dead_letter("acme", "d-0001")


def test_dead_letters_of_others_do_not_exist(stores: Stores) -> None:
    stores.context.write_dead_letters([letter(1, reason="ours"), letter(1, tenant="other", reason="theirs"), letter(2, tenant="other")])
    assert letters(stores) == ["d-0001"]
    assert stores.context.dead_letter("other", "d-0001").reason == "theirs"
    for tenant, name in (("acme", "d-0002"), ("third", "d-0001")):
        with pytest.raises(NotFound, match=f"no dead letter '{name}'"):
            stores.context.dead_letter(tenant, name)


def test_dead_letters_come_newest_first_within_a_half_open_period(stores: Stores) -> None:
    for number in (3, 1, 4, 2):
        stores.context.write_dead_letters([letter(number)])
    assert letters(stores) == ["d-0004", "d-0003", "d-0002", "d-0001"]
    assert letters(stores, since_ns=NOW_NS + 2 * SECOND_NS, until_ns=NOW_NS + 4 * SECOND_NS) == ["d-0003", "d-0002"]


def test_pages_of_dead_letters_are_stable_while_newer_ones_arrive(stores: Stores) -> None:
    stores.context.write_dead_letters([letter(number, received_ns=NOW_NS + number // 3) for number in range(20)])
    fresh = itertools.count(100)

    def ask(query: ListQuery) -> Page[model.DeadLetter]:
        page = stores.context.dead_letters(query)
        stores.context.write_dead_letters([letter(next(fresh), received_ns=NOW_NS + DAY_NS)])
        return page

    seen = [item.id for item in walk(ask, ListQuery(tenant="acme", limit=6))]
    assert seen == [f"d-{number:04}" for number in reversed(range(20))]


def test_a_dead_letter_of_anything_costs_no_neighbour(stores: Stores) -> None:
    stores.context.write_dead_letters(
        [letter(1), letter(2, reason="lone \ud800 surrogate", received_ns=1 << 62), letter(3, reason="nul \x00")]
    )
    assert letters(stores) == ["d-0002", "d-0003", "d-0001"]
    assert stores.context.dead_letter("acme", "d-0002").reason == r"lone \ud800 surrogate"
