"""Stores that go away and come back: each outage is told, holds up nothing else, and costs nothing."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import httpx
import pytest

from firstfault_server.adapters.elasticsearch import ElasticsearchStores, open_stores
from firstfault_server.cli.clocks import SystemClock
from firstfault_server.core import model
from firstfault_server.core.access import DEFAULT_TENANT
from firstfault_server.ports import ListQuery
from firstfault_server.wire.outputs import OutputRecord
from tests.contract.records import event, incident, rollup, run
from tests.integration.cli.sending import send_crash
from tests.integration.distributed.installation import send, wait_for
from tests.integration.distributed.paging import paging
from tests.integration.distributed.services import Installation, Service, Wire, wire

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]


KINDS = ("writer", "api", "ingest", "alerter")
RUN = "r-ranks"


class Cuttable:
    """Services whose connections to the stores can be cut."""

    def __init__(self, installation: Installation, elasticsearch: Wire, clickhouse: Wire, services: dict[str, Service]) -> None:
        self.installation, self.elasticsearch, self.clickhouse = installation, elasticsearch, clickhouse
        self.writer, self.api, self.ingest, self.alerter = (services[kind] for kind in KINDS)

    def detect(self, number: int) -> None:
        """One event and one rollup."""
        at = time.time_ns()
        records: list[OutputRecord] = [event(number, time_ns=at, received_ns=at), rollup(0, position=f"{number:04}", window_ns=at)]
        send(self.installation.kafka, self.installation.prefix, records)

    def events(self) -> int:
        """Stored so far."""
        with self.stores() as stores:
            return len(stores.context.events(ListQuery(tenant="acme", limit=200)).items)

    @contextmanager
    def stores(self) -> Iterator[ElasticsearchStores]:
        """Those of the installation, reached without the wire."""
        stores = open_stores(self.installation.elasticsearch, SystemClock(), "test")
        try:
            yield stores
        finally:
            stores.close()

    def rollups(self) -> int:
        """Stored so far."""
        return int(self.installation.ask("SELECT count() FROM {database}.rollup FINAL"))

    def detect_ranks(self) -> None:
        """A run of the tenant without keys, with a rank that has sent one loss."""
        at = time.time_ns()
        ranks = [model.RankStatus(rank=3, process="p-3", node="n-01")]
        records: list[OutputRecord] = [
            run(1, run=RUN, tenant=DEFAULT_TENANT, started_ns=at, updated_ns=at, ranks=ranks),
            rollup(0, run=RUN, tenant=DEFAULT_TENANT, process="p-3", rank=3, window_ns=at),
        ]
        send(self.installation.kafka, self.installation.prefix, records)

    def ranks(self) -> tuple[int, bool, dict[int, int | None]]:
        """Status of the question for losses of all ranks, whether the answer is partial, and losses by rank."""
        answer = httpx.get(f"{self.api.url('api')}/v1/runs/{RUN}/ranks", params={"metric": "loss"}, timeout=30, trust_env=False)
        document = answer.json()
        figures = {item["rank"]: item["figures"] and item["figures"]["count"] for item in document.get("items", [])}
        return answer.status_code, document.get("partial", False), figures

    def status(self, path: str) -> int:
        return httpx.get(self.api.url("api") + path, timeout=30, trust_env=False).status_code

    def sent(self, **headers: str) -> int:
        """Status of a request to ingest."""
        return httpx.post(self.ingest.url("otlp-http") + "/v1/logs", json={}, headers=headers, timeout=30, trust_env=False).status_code


@pytest.fixture(scope="module")
def cuttable(installation: Installation, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cuttable]:
    """Started once for the module."""
    folder = tmp_path_factory.mktemp("outages")
    with ExitStack() as stack:
        elasticsearch = stack.enter_context(wire(installation.settings["FIRSTFAULT_ELASTICSEARCH_URL"].removeprefix("http://")))
        clickhouse = stack.enter_context(wire(installation.settings["FIRSTFAULT_CLICKHOUSE_URL"].removeprefix("http://")))
        environ = installation.environ(
            FIRSTFAULT_ELASTICSEARCH_URL=f"http://{elasticsearch.address}", FIRSTFAULT_CLICKHOUSE_URL=f"http://{clickhouse.address}"
        )
        # One store is not even there when they start.
        clickhouse.cut()
        with ThreadPoolExecutor() as at_once:
            started = list(at_once.map(lambda kind: Service(kind, environ, folder), KINDS))
        services = {service.kind: stack.enter_context(service) for service in started}
        made = Cuttable(installation, elasticsearch, clickhouse, services)
        made.detect(1)
        wait_for(lambda: made.events() == 1, "the event is stored while ClickHouse is away")
        wait_for(lambda: list(made.writer.problems()) == ["aggregates"], "the writer says so")
        clickhouse.join()
        wait_for(lambda: made.rollups() == 1, "the numbers follow")
        for service in services.values():
            service.wait_until_ready()
        yield made


def test_stores_that_go_are_noticed_while_nothing_comes(cuttable: Cuttable) -> None:
    waits = [("context", "store"), ("aggregates", "store")]
    before = [cuttable.writer.figure("firstfault_consumer_waits_total", loop=loop, reason=reason) for loop, reason in waits]
    cuttable.elasticsearch.cut()
    cuttable.clickhouse.cut()
    wait_for(lambda: set(cuttable.writer.problems()) == {"context", "aggregates"}, "the writer says so")
    wait_for(lambda: list(cuttable.alerter.problems()) == ["delivery"], "the alerter says so")
    assert [cuttable.writer.figure("firstfault_consumer_waits_total", loop=loop, reason=reason) for loop, reason in waits] == before
    cuttable.elasticsearch.join()
    cuttable.clickhouse.join()
    cuttable.writer.wait_until_ready()
    cuttable.alerter.wait_until_ready()
    cuttable.api.wait_until_ready()


def test_no_clickhouse(cuttable: Cuttable) -> None:
    cuttable.detect_ranks()
    wait_for(lambda: cuttable.ranks() == (200, False, {3: 1}), "figures of the rank")
    events, rollups = cuttable.events(), cuttable.rollups()
    cuttable.clickhouse.cut()
    cuttable.detect(2)
    wait_for(lambda: cuttable.events() == events + 1, "events are stored all the same")
    wait_for(lambda: list(cuttable.writer.problems()) == ["aggregates"], "the writer says so")
    assert cuttable.writer.figure("firstfault_consumer_waits_total", loop="aggregates", reason="store") >= 1
    wait_for(lambda: bool(cuttable.api.problems()), "the API says so")
    state, problems = cuttable.api.state()
    assert (state, list(problems)) == ("degraded", ["metrics"])
    assert cuttable.status("/v1/incidents") == 200
    assert cuttable.ranks() == (200, True, {3: None})
    assert cuttable.status(f"/v1/runs/{RUN}/series?metric=loss") == 503
    assert cuttable.rollups() == rollups
    assert cuttable.alerter.problems() == {}
    cuttable.clickhouse.join()
    wait_for(lambda: cuttable.rollups() == rollups + 1, "the numbers follow")
    cuttable.writer.wait_until_ready()
    cuttable.api.wait_until_ready()


def test_no_elasticsearch(cuttable: Cuttable) -> None:
    events, rollups = cuttable.events(), cuttable.rollups()
    send_crash(cuttable.ingest.url("otlp-http"), "r-before")
    cuttable.elasticsearch.cut()
    cuttable.detect(3)
    wait_for(lambda: cuttable.rollups() == rollups + 1, "numbers are stored all the same")
    wait_for(lambda: list(cuttable.writer.problems()) == ["context"], "the writer says so")
    assert cuttable.status("/v1/incidents") == 503
    wait_for(lambda: cuttable.api.state()[0] == "not ready", "no request comes here any more")
    assert list(cuttable.api.problems()) == ["elasticsearch"]
    assert cuttable.events() == events
    # Whether a key was made meanwhile cannot be looked up, and must not be guessed: not longer than an answer is kept.
    wait_for(lambda: cuttable.sent() == 503, "ingest takes nothing from senders whom it cannot look up")
    assert cuttable.sent(authorization="Bearer ffk_unknown") == 503
    cuttable.elasticsearch.join()
    wait_for(lambda: cuttable.sent() == 200, "ingest takes it again")
    wait_for(lambda: cuttable.events() == events + 1, "events follow")
    cuttable.writer.wait_until_ready()
    cuttable.api.wait_until_ready()
    assert cuttable.ingest.problems() == {}


def test_a_page_waits_for_elasticsearch_and_goes_out_once(cuttable: Cuttable) -> None:
    at = time.time_ns()
    fault = model.FirstFault(status="settled", rank=0, time=at)
    paged = incident(1, id="i-waits", page=True, severity="critical", first_fault=fault, opened_at=at, updated_at=at)
    with paging(cuttable.installation) as pager:
        cuttable.elasticsearch.cut()
        send(cuttable.installation.kafka, cuttable.installation.prefix, [paged])
        wait_for(lambda: set(cuttable.alerter.problems()) == {"incidents", "delivery"}, "the alerter says so")
        assert pager.messages == []
        cuttable.elasticsearch.join()
        wait_for(lambda: len(pager.messages) > 0, "the page")
        cuttable.alerter.wait_until_ready()
        assert [(identity, message["type"]) for identity, message in pager.messages] == [("i-waits.1", "incident.opened")]
    cuttable.writer.wait_until_ready()
    cuttable.api.wait_until_ready()
