"""What the contract suite does not see: templates, days, single documents that are refused, an outage."""

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deploy.native.servers.process import free_ports
from firstfault_server.adapters import memory
from firstfault_server.adapters.elasticsearch import Connection, ElasticsearchStores, ensure_templates, open_stores
from firstfault_server.adapters.elasticsearch.events import ElasticsearchContextStore
from firstfault_server.adapters.elasticsearch.templates import FAMILIES
from firstfault_server.core import model, search_fields
from firstfault_server.core.search import Expression, Term
from firstfault_server.ports import ListQuery, StoreUnavailable
from tests.contract.records import DAY_NS, NOW_NS, FixedClock, event, incident, message, run
from tests.contract.test_search_agreement import events, expressions

TODAY = "2026.09.21"
"""Day of `NOW_NS`."""
pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]


def opened(connection: Connection, *, refresh: bool = False) -> ElasticsearchStores:
    return open_stores(connection, FixedClock(), "one", refresh=refresh)


@pytest.fixture
def store(connection: Connection) -> Iterator[ElasticsearchContextStore]:
    """An empty store on prepared templates."""
    ensure_templates(connection, replicas=0)
    stores = opened(connection, refresh=True)
    yield stores.context
    stores.close()


def everything(store: ElasticsearchContextStore) -> set[str]:
    return {item.id for item in store.events(ListQuery(tenant="acme")).items}


def indices(connection: Connection) -> list[str]:
    with connection.client() as client:
        return sorted(name.removeprefix(f"{connection.prefix}-") for name in client.indices.get(index=f"{connection.prefix}-*"))


def search(connection: Connection, query: dict[str, Any], index: str = "") -> set[str]:
    """Ids of the events that another tool finds."""
    with connection.client() as client:
        hits = client.search(index=index or f"{connection.prefix}-events", query=query)["hits"]["hits"]
    return {hit["_source"]["id"] for hit in hits}


def test_templates_are_written_once_and_upgraded_but_never_taken_back(connection: Connection) -> None:
    names = [f"{connection.prefix}-{family.name}" for family in FAMILIES]
    assert ensure_templates(connection) == names
    assert ensure_templates(connection) == []
    for version, written in ((0, names[:1]), (99, [])):
        with connection.client() as client:
            template = client.indices.get_index_template(name=names[0])["index_templates"][0]["index_template"]
            client.indices.put_index_template(
                name=names[0], index_patterns=template["index_patterns"], template=template["template"], version=version
            )
        assert ensure_templates(connection) == written


def test_an_upgrade_gives_indices_the_fields_they_lack(connection: Connection, store: ElasticsearchContextStore) -> None:
    name = f"{connection.prefix}-events"
    with connection.client() as client:
        client.indices.create(index=f"{name}-v1-{TODAY}", mappings={"dynamic": False, "properties": {"tenant": {"type": "keyword"}}})
        client.indices.put_index_template(name=name, index_patterns=[f"{name}-v1-*"], version=0)
    assert ensure_templates(connection, replicas=0) == [name]
    store.write_events([event(1)])
    assert search(connection, {"term": {"search.event": "exception"}}, index=f"{name}-v1-{TODAY}") == {"e-0001"}


def test_without_templates_nothing_is_written(connection: Connection) -> None:
    stores = opened(connection)
    with pytest.raises(StoreUnavailable, match="firstfault migrate"):
        stores.context.write_events([event(1)])
    assert indices(connection) == []
    ensure_templates(connection, replicas=0)
    stores.context.write_events([event(1)])
    assert indices(connection) == [f"events-v1-{TODAY}"]
    stores.close()


def test_what_was_received_on_one_day_lies_in_one_index_and_goes_with_it(connection: Connection, store: ElasticsearchContextStore) -> None:
    store.write_events([event(number, received_ns=NOW_NS + number % 3 * DAY_NS) for number in range(9)])
    assert indices(connection) == ["events-v1-2026.09.21", "events-v1-2026.09.22", "events-v1-2026.09.23"]
    ends = [end for end, size in store.extents() if size > 0]
    assert [end % DAY_NS for end in ends] == [0, 0, 0]
    assert store.prune(ends[0]) == 3
    assert indices(connection) == ["events-v1-2026.09.22", "events-v1-2026.09.23"]
    assert everything(store) == {f"e-{number:04}" for number in range(9) if number % 3}


def test_times_that_clients_make_up_do_not_make_indices(connection: Connection, store: ElasticsearchContextStore) -> None:
    store.write_events([event(number, time_ns=(number - 5) * (1 << 60)) for number in range(12)])
    assert indices(connection) == [f"events-v1-{TODAY}"]
    assert len(everything(store)) == 12


def test_an_event_that_comes_twice_before_it_is_visible_stays_as_it_is(connection: Connection) -> None:
    ensure_templates(connection, replicas=0)
    stores = opened(connection)
    stores.context.write_events([event(1, body="first")])
    stores.context.write_events([event(1, body="second"), event(2)])
    with connection.client() as client:
        client.indices.refresh(index=f"{connection.prefix}-events")
        assert client.count(index=f"{connection.prefix}-events")["count"] == 2
    assert stores.context.event("acme", "e-0001").body == "first"
    stores.close()


def test_an_event_that_the_index_refuses_becomes_a_dead_letter_and_costs_no_neighbour(
    connection: Connection, store: ElasticsearchContextStore
) -> None:
    with connection.client() as client:
        # An index in which a rank has one byte.
        client.indices.create(index=f"{connection.prefix}-events-v1-{TODAY}", mappings={"properties": {"search.rank": {"type": "byte"}}})
    store.write_events([event(1), event(2, rank=1000), event(3)])
    assert everything(store) == {"e-0001", "e-0003"}
    (letter,) = store.dead_letters(ListQuery(tenant="acme")).items
    assert "e-0002" in letter.reason
    assert "1000" in letter.reason
    assert b"event number 2" in letter.data
    store.write_events([event(2, rank=1000)])
    assert len(store.dead_letters(ListQuery(tenant="acme")).items) == 1


ATTRIBUTES: dict[str, model.Attribute] = {
    "nccl.rank": 3,
    "nccl": "a name and a prefix of one",
    "list": [1, "two"],
    "not a number": float("nan"),
    "long": "x" * 100_000,
    "": "no name",
    ".": "dot",
    "a..b": "dots",
    " ": "blank",
    "nul\x00name": 1,
    "n" * 5000: 1,
    "large": (1 << 63) - 1,
}


def test_an_attribute_never_costs_its_event(store: ElasticsearchContextStore) -> None:
    each_alone = [event(number, attributes={name: value}) for number, (name, value) in enumerate(ATTRIBUTES.items())]
    store.write_events([*each_alone, event(99, attributes=ATTRIBUTES)])
    assert [letter.reason for letter in store.dead_letters(ListQuery(tenant="acme")).items] == []
    assert everything(store) == {item.id for item in each_alone} | {"e-0099"}


def test_attributes_can_be_searched_by_other_tools(connection: Connection, store: ElasticsearchContextStore) -> None:
    store.write_events([event(1, attributes={"nccl.rank": 3, "job": "a"}), event(2, attributes={"nccl.rank": 4}), event(3)])
    assert search(connection, {"term": {"attributes.nccl.rank": "3"}}) == {"e-0001"}
    assert search(connection, {"exists": {"field": "attributes.nccl.rank"}}) == {"e-0001", "e-0002"}


@settings(max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(written=events(), asked=st.lists(expressions(search_fields.EVENT), min_size=5, max_size=10))
def test_it_finds_what_the_plain_store_finds(store: ElasticsearchContextStore, written: list[model.Event], asked: list[Expression]) -> None:
    tenant = f"t-{uuid.uuid4().hex}"
    for item in written:
        item.identity = msgspec.structs.replace(item.identity, tenant=tenant)
    plain = memory.open_stores(FixedClock()).context
    plain.write_events(written)
    store.write_events(written)
    for where in [*asked, Term(key="attempt", value="1", operator=">"), Term(key="severity", value="error", operator="<=")]:
        query = ListQuery(tenant=tenant, where=where)
        assert store.events(query) == plain.events(query)
        assert store.fingerprints(query) == plain.fingerprints(query)


def test_fingerprints_of_the_same_moment_are_told_apart(store: ElasticsearchContextStore) -> None:
    """Floating point, in which Elasticsearch aggregates, knows times of today to 256 ns."""
    plain = memory.open_stores(FixedClock()).context
    written = [event(number, time_ns=NOW_NS + number * 37 % 400, fingerprint=f"f-{number % 30:02}") for number in range(60)]
    for each in (store, plain):
        each.write_events(written)
    query = ListQuery(tenant="acme", limit=4)
    while True:
        page = store.fingerprints(query)
        assert page == plain.fingerprints(query)
        if page.next_key is None:
            break
        query = msgspec.structs.replace(query, after=tuple(page.next_key))


def test_a_cluster_that_is_away_is_named() -> None:
    (port,) = free_ports(1)
    stores = opened(Connection(url=f"http://127.0.0.1:{port}"))
    query = ListQuery(tenant="acme")
    actions: list[Callable[[], object]] = [
        lambda: stores.context.write_events([event(1)]),
        lambda: stores.context.events(query),
        lambda: stores.context.prune(NOW_NS),
        lambda: stores.incidents.write_incidents([incident(1)]),
        lambda: stores.incidents.write_runs([run(1)]),
        lambda: stores.incidents.incidents(query, NOW_NS),
        lambda: stores.triage.triage("acme", "i-0001"),
        lambda: stores.triage.audit(query),
        lambda: stores.triage.recall("acme", "key"),
        lambda: stores.silences.ending_after("acme", NOW_NS),
        lambda: stores.access.keys(),
        lambda: stores.outbox.add([message(1)]),
        lambda: stores.outbox.due(NOW_NS, 1),
        lambda: stores.outbox.prune_deliveries(NOW_NS),
    ]
    for action in actions:
        with pytest.raises(StoreUnavailable, match=f"Elasticsearch at http://127.0.0.1:{port} cannot"):
            action()
    stores.close()
