"""Stores agree on what a search finds, whatever the search and whatever the text."""

import itertools
from collections.abc import Iterator
from typing import Generic, TypeVar

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from firstfault_server.adapters import memory, sqlite
from firstfault_server.adapters.elasticsearch import ElasticsearchStores
from firstfault_server.adapters.sqlite.events import SqliteContextStore
from firstfault_server.core import model, search_fields
from firstfault_server.core.search import And, Expression, Not, Operator, Or, Term, Text
from firstfault_server.core.search_fields import Fields
from firstfault_server.ports import ListQuery
from tests.contract.conftest import Stores
from tests.contract.indices import elasticsearch_stores
from tests.contract.records import NOW_NS, FixedClock, audit, event, incident, run

WORDS = [
    "cuda",
    "CUDA",
    "out",
    "memory",
    "grad_norm",
    "Straße",
    "STRASSE",
    "İstanbul",
    "nccl",
    "ΣΑΣ",
    "x" * 300,
    "torch.nn",
    "a-b",
    "42",
    "\ud800",
    "\uffff",
]
HOUR_NS = 3600 * model.SECOND_NS
OPERATORS: list[Operator] = ["=", ">", ">=", "<", "<="]
SMALL = st.sampled_from(["a", "b", "c"])
text = st.lists(st.sampled_from(WORDS) | st.text(max_size=6), max_size=6).map(" ".join)
ranks = st.none() | st.integers(0, 3)


def terms(fields: Fields) -> list[Term]:
    """Every term that can be asked of these fields, over the values that the records here have."""
    every: list[Term] = []
    for key, field in sorted(fields.items()):
        if field.type == "number":
            values = [*sorted(field.names), "0", "1", "2", "-1", "17"]
            every += [Term(key=key, value=value, operator=operator) for value in values for operator in OPERATORS]
        else:
            every += [Term(key=key, value=value) for value in (sorted(field.values) or ["a", "b", "c"])]
    return every


def expressions(fields: Fields) -> st.SearchStrategy[Expression]:
    """Trees over terms and free text."""
    leaves = st.sampled_from(terms(fields)) | st.builds(Text, value=text, phrase=st.booleans())
    return st.recursive(
        leaves,
        lambda inner: (
            st.builds(Not, part=inner)
            | st.builds(And, parts=st.lists(inner, max_size=3).map(tuple))
            | st.builds(Or, parts=st.lists(inner, max_size=3).map(tuple))
        ),
        max_leaves=8,
    )


@st.composite
def events(draw: st.DrawFn) -> list[model.Event]:
    """Up to six events over small sets of values."""
    return [
        event(
            number,
            body=draw(text),
            exception=draw(st.none() | st.builds(model.ExceptionInfo, type=SMALL, message=text, stacktrace=text)),
            run=draw(SMALL),
            rank=draw(ranks),
            node=draw(SMALL | st.just("")),
            owner=draw(SMALL),
            process=draw(SMALL),
            event_name=draw(SMALL),
            severity=draw(st.integers(0, 24)),
            fingerprint=draw(SMALL | st.just("")),
            symptom=draw(SMALL | st.just("")),
            trace_id=draw(SMALL | st.just("")),
            step=draw(ranks),
            attempt=draw(ranks),
        )
        for number in range(draw(st.integers(1, 6)))
    ]


@st.composite
def incidents(draw: st.DrawFn) -> list[tuple[model.Incident, model.Triage]]:
    """Up to five incidents with marks."""
    some_time = st.none() | st.integers(NOW_NS - 2, NOW_NS + 2)
    return [
        (
            incident(
                number,
                title=draw(text),
                state=draw(st.sampled_from(["open", "resolved"])),
                resolved_at=draw(some_time),
                severity=draw(st.sampled_from(["info", "warning", "error", "critical"])),
                page=draw(st.booleans()),
                recurrences=draw(st.integers(0, 1)),
                symptom=draw(SMALL),
                family=draw(SMALL),
                first_fault=model.FirstFault(
                    status=draw(st.sampled_from(["provisional", "settled"])),
                    rank=draw(ranks),
                    candidates=draw(st.lists(st.integers(0, 3), max_size=2)),
                    node=draw(st.none() | SMALL),
                    time=draw(some_time),
                    exception=draw(st.none() | st.builds(model.ExceptionInfo, type=SMALL, message=text)),
                    stderr_tail=draw(st.lists(text, max_size=2)),
                ),
                run=model.RunRef(id=draw(SMALL), name=draw(SMALL), owner=draw(SMALL | st.just("")), attempt=draw(st.integers(1, 2))),
                evidence=draw(st.lists(st.builds(model.Evidence, id=SMALL, kind=st.just("log"), text=text, node=SMALL), max_size=2)),
                fingerprint=model.Fingerprint(id=draw(SMALL), stack_hash=draw(SMALL)),
            ),
            model.Triage(
                tenant="acme",
                incident=f"i-{number:04}",
                ack_at_ns=draw(some_time),
                assignee=draw(st.none() | SMALL),
                muted_until_ns=draw(some_time),
                resolved_at_ns=draw(some_time),
                reopened_at_ns=draw(some_time),
            ),
        )
        for number in range(draw(st.integers(1, 5)))
    ]


@st.composite
def runs(draw: st.DrawFn) -> list[model.RunStatus]:
    """Up to six runs, some of them again in a later or an earlier revision."""
    return [
        run(
            draw(st.integers(0, 3)),
            revision=draw(st.integers(0, 3)),
            name=draw(SMALL | text),
            owner=draw(SMALL | st.just("")),
            command=draw(text),
            nodes=draw(st.lists(SMALL, max_size=2)),
            state=draw(st.sampled_from(["running", "failed"])),
            attempt=draw(st.integers(1, 2)),
            incidents=draw(st.lists(SMALL, max_size=1)),
        )
        for _ in range(draw(st.integers(1, 6)))
    ]


StoresT = TypeVar("StoresT", bound=Stores)


class Pair(Generic[StoresT]):
    """A store and the plain one in memory; examples share them, each under a tenant of its own."""

    def __init__(self, both: tuple[StoresT, memory.MemoryStores]) -> None:
        self.both = both
        self._numbers = itertools.count()

    def tenant(self) -> str:
        """A tenant that has nothing yet."""
        return f"t-{next(self._numbers)}"


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair[sqlite.SqliteStores]]:
    """SQLite and memory."""
    clock = FixedClock()
    opened = sqlite.open_stores(tmp_path_factory.mktemp("agreement") / "firstfault.sqlite", clock)
    yield Pair((opened, memory.open_stores(clock)))
    opened.close()


@pytest.fixture(scope="module")
def servers(elasticsearch_address: str) -> Iterator[Pair[ElasticsearchStores]]:
    """Elasticsearch and memory."""
    clock = FixedClock()
    with elasticsearch_stores(elasticsearch_address, clock, name="agreement") as opened:
        yield Pair((opened, memory.open_stores(clock)))


relaxed = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@relaxed
@given(written=events(), asked=st.lists(expressions(search_fields.EVENT), min_size=5, max_size=15))
def test_on_events(pair: Pair[sqlite.SqliteStores], written: list[model.Event], asked: list[Expression]) -> None:
    """Events and fingerprints."""
    tenant = pair.tenant()
    for item in written:
        item.identity = msgspec.structs.replace(item.identity, tenant=tenant)
    one, other = (stores.context for stores in pair.both)
    one.write_events(written)
    other.write_events(written)
    for where in [*asked, *terms(search_fields.EVENT)]:
        query = ListQuery(tenant=tenant, where=where)
        assert one.events(query) == other.events(query)
        assert one.fingerprints(query) == other.fingerprints(query)


class Write(msgspec.Struct):
    """Write events: (number, hours from now of event time, of arrival, fingerprint)."""

    events: list[tuple[int, int, int, str]]


class Prune(msgspec.Struct):
    """Drop what arrived earlier, hours from now."""

    hours: int


hours = st.integers(-60, 60)
histories = st.lists(
    st.builds(Write, events=st.lists(st.tuples(st.integers(0, 25), hours, hours, SMALL), min_size=1, max_size=8))
    | st.builds(Prune, hours=hours),
    max_size=12,
)


@settings(relaxed, max_examples=40)
@given(history=histories, limit=st.integers(1, 5))
def test_on_histories(pair: Pair[sqlite.SqliteStores], history: list[Write | Prune], limit: int) -> None:
    """Segments that fill up, change with the day, and are pruned in part or whole hold the same as one plain list."""
    tenant, clock = pair.tenant(), FixedClock()
    one = SqliteContextStore(pair.both[0].database, segment_bytes=600)
    one.prune(1 << 62)
    other = memory.open_stores(clock).context
    for action in history:
        if isinstance(action, Prune):
            assert one.prune(NOW_NS + action.hours * HOUR_NS) == other.prune(NOW_NS + action.hours * HOUR_NS)
            continue
        written = [
            event(number, tenant=tenant, time_ns=NOW_NS + time * HOUR_NS, received_ns=NOW_NS + received * HOUR_NS, fingerprint=fingerprint)
            for number, time, received, fingerprint in action.events
        ]
        one.write_events(written)
        other.write_events(written)
    query = ListQuery(tenant=tenant, limit=limit, where=Text(value="number"))
    while True:
        page = one.events(query)
        assert page == other.events(query)
        if page.next_key is None:
            break
        query = msgspec.structs.replace(query, after=tuple(page.next_key))
    whole = ListQuery(tenant=tenant, since_ns=NOW_NS - 20 * HOUR_NS, until_ns=NOW_NS + 20 * HOUR_NS)
    assert one.events(whole) == other.events(whole)
    assert one.fingerprints(whole) == other.fingerprints(whole)


marked_incidents = given(
    written=incidents(), asked=st.lists(expressions(search_fields.INCIDENT), min_size=5, max_size=15), marks_first=st.booleans()
)
some_runs = given(written=runs(), asked=st.lists(expressions(search_fields.RUN), min_size=5, max_size=15))


@relaxed
@marked_incidents
def test_on_incidents(
    pair: Pair[sqlite.SqliteStores], written: list[tuple[model.Incident, model.Triage]], asked: list[Expression], marks_first: bool
) -> None:
    """Incidents merged with people's marks, in either order of writing."""
    agree_on_incidents(pair, written, asked, marks_first)


@pytest.mark.integration
@pytest.mark.timeout(900)
@settings(relaxed, max_examples=6)
@marked_incidents
def test_on_incidents_in_elasticsearch(
    servers: Pair[ElasticsearchStores], written: list[tuple[model.Incident, model.Triage]], asked: list[Expression], marks_first: bool
) -> None:
    """The same of the store in which marks and incidents are separate documents."""
    agree_on_incidents(servers, written, asked, marks_first)


@relaxed
@some_runs
def test_on_runs(pair: Pair[sqlite.SqliteStores], written: list[model.RunStatus], asked: list[Expression]) -> None:
    """Runs."""
    agree_on_runs(pair, written, asked)


@pytest.mark.integration
@pytest.mark.timeout(900)
@settings(relaxed, max_examples=6)
@some_runs
def test_on_runs_in_elasticsearch(servers: Pair[ElasticsearchStores], written: list[model.RunStatus], asked: list[Expression]) -> None:
    """Runs there."""
    agree_on_runs(servers, written, asked)


def agree_on_incidents(
    pair: Pair[StoresT], written: list[tuple[model.Incident, model.Triage]], asked: list[Expression], marks_first: bool
) -> None:
    tenant = pair.tenant()
    for stores in pair.both:
        for number, (item, triage) in enumerate(written):
            item.tenant = triage.tenant = tenant
            if marks_first:
                stores.triage.put_triage(triage, audit(number, tenant=tenant))
            stores.incidents.write_incidents([item])
            if not marks_first:
                stores.triage.put_triage(triage, audit(number, tenant=tenant))
    one, other = (stores.incidents for stores in pair.both)
    for where in [*asked, *terms(search_fields.INCIDENT)]:
        query = ListQuery(tenant=tenant, where=where)
        assert one.incidents(query, NOW_NS) == other.incidents(query, NOW_NS), where


def agree_on_runs(pair: Pair[StoresT], written: list[model.RunStatus], asked: list[Expression]) -> None:
    tenant = pair.tenant()
    for stores in pair.both:
        stores.incidents.write_runs([msgspec.structs.replace(item, tenant=tenant) for item in written])
    one, other = (stores.incidents for stores in pair.both)
    for where in [*asked, *terms(search_fields.RUN)]:
        query = ListQuery(tenant=tenant, where=where)
        assert one.runs(query) == other.runs(query), where
