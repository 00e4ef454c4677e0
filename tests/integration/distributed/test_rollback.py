"""Back from a later version: after a step that only added to stores this version goes on, after any other it says why not; and it reads
what the later one wrote to topics."""

import uuid
from collections.abc import Iterator

import msgspec
import pytest
import structlog
from prometheus_client import CollectorRegistry

from firstfault_server.adapters.clickhouse import ClickHouseAggregateStore, server_engine, tables
from firstfault_server.adapters.clickhouse.engine import Engine
from firstfault_server.adapters.elasticsearch import Connection, ElasticsearchStores, ensure_templates, open_stores, templates
from firstfault_server.api import schemas
from firstfault_server.core import model
from firstfault_server.core.documents import incident_document
from firstfault_server.ports import ListQuery, SeriesQuery, StoreUnavailable
from firstfault_server.wire.incoming import TopicRecord
from firstfault_server.wire.outputs import EVENTS, INCIDENTS, RUNS
from firstfault_server.writer.batches import BatchWriter, context_targets
from firstfault_server.writer.telemetry import WriterMetrics
from tests.contract.indices import own_indices
from tests.contract.records import NOW_NS, FixedClock, event, incident, rollup
from tests.unit.wire.later import UNKNOWN_FIELDS, full, put

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]
KNOWN = len(tables.MIGRATIONS)
ADDS = tables.Migration(("ALTER TABLE {database}.rollup ADD COLUMN IF NOT EXISTS extra String DEFAULT 'none'",), works_from=1)
CHANGES = tables.Migration(("ALTER TABLE {database}.rollup RENAME COLUMN IF EXISTS total TO amount",), works_from=KNOWN + 2)
LOSS = SeriesQuery(tenant="acme", run="r-1", metric="train.loss")


# ---- ClickHouse ------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def engine(clickhouse_url: str) -> Iterator[Engine]:
    """A real server."""
    opened = server_engine(clickhouse_url, clients=1)
    yield opened
    opened.close()


@pytest.fixture
def database(engine: Engine) -> Iterator[str]:
    """Of one test alone."""
    name = f"t{uuid.uuid4().hex[:12]}"
    yield name
    engine.command(f"DROP DATABASE IF EXISTS {name}")


def upgraded(engine: Engine, database: str, *steps: tables.Migration) -> None:
    """What `firstfault migrate` of a later version does."""
    with pytest.MonkeyPatch.context() as later:
        later.setattr(tables, "MIGRATIONS", (*tables.MIGRATIONS, *steps))
        assert tables.migrate(engine, database)[-1] == KNOWN + len(steps)


def test_after_a_step_that_added_a_column_this_version_writes_and_reads(engine: Engine, database: str) -> None:
    tables.migrate(engine, database)
    upgraded(engine, database, ADDS)
    store = ClickHouseAggregateStore(engine, database=database, upgrade=False)
    store.write_rollups([rollup(0, count=3)])
    ((bucket,),) = store.series(LOSS).values()
    assert bucket.count == 3
    assert store.metrics("acme", "r-1") == ["train.loss"]
    assert engine.rows(f"SELECT extra FROM {database}.rollup")[0][0] == "none"
    # An upgrade that is tried again finds everything in place.
    assert tables.migrate(engine, database) == []
    ClickHouseAggregateStore(engine, database=database)
    upgraded(engine, database, ADDS, ADDS)


def test_after_another_step_this_version_says_why_it_does_not_start(engine: Engine, database: str) -> None:
    tables.migrate(engine, database)
    # It takes no later step back that it has to know an earlier one for.
    upgraded(engine, database, ADDS, CHANGES, ADDS._replace(works_from=KNOWN + 2))
    for upgrade in (False, True):
        with pytest.raises(
            StoreUnavailable, match=rf"to schema {KNOWN + 3}, which needs one that knows schema {KNOWN + 2}; this one knows {KNOWN}"
        ):
            ClickHouseAggregateStore(engine, database=database, upgrade=upgrade)


def test_tables_that_never_said_what_they_need_need_what_made_them(engine: Engine, database: str) -> None:
    engine.command(f"CREATE DATABASE {database}")
    engine.command(f"CREATE TABLE {database}.schema_version (version UInt32) ENGINE = ReplacingMergeTree ORDER BY version")
    assert tables.migrate(engine, database) == list(range(1, KNOWN + 1))
    engine.insert(f"{database}.schema_version", ["version"], [99])
    with pytest.raises(StoreUnavailable, match="needs one that knows schema 99"):
        tables.check(engine, database)


# ---- Elasticsearch ---------------------------------------------------------------------------------------------------------------


@pytest.fixture
def connection(elasticsearch_address: str) -> Iterator[Connection]:
    """Of one test alone."""
    with own_indices(elasticsearch_address) as made:
        yield made


@pytest.fixture
def stores(connection: Connection) -> Iterator[ElasticsearchStores]:
    """Stores of this version."""
    opened = open_stores(connection, FixedClock(), "one", refresh=True)
    yield opened
    opened.close()


def upgraded_templates(connection: Connection, works_from: int) -> None:
    """What `firstfault migrate` of a later version does: every family has one more field."""
    families = [msgspec.structs.replace(each, properties={**each.properties, "extra": templates.KEY}) for each in templates.FAMILIES]
    with pytest.MonkeyPatch.context() as later:
        later.setattr(templates, "VERSION", templates.VERSION + 1)
        later.setattr(templates, "WORKS_FROM", works_from)
        later.setattr(templates, "FAMILIES", tuple(families))
        assert len(ensure_templates(connection, replicas=0)) == len(families)


def test_after_templates_that_added_a_field_this_version_writes_and_reads(connection: Connection, stores: ElasticsearchStores) -> None:
    ensure_templates(connection, replicas=0)
    stores.incidents.write_incidents([incident(1)])
    upgraded_templates(connection, works_from=templates.WORKS_FROM)
    back = open_stores(connection, FixedClock(), "two", refresh=True)
    assert ensure_templates(connection, replicas=0) == []
    back.incidents.write_incidents([incident(1, revision=2), incident(2)])
    back.context.write_events([event(1)])
    # The later version and this one speak of the same indices.
    assert back.incidents.incident("acme", "i-0001").revision == stores.incidents.incident("acme", "i-0001").revision == 2
    assert back.context.event("acme", "e-0001") == event(1)
    mapping = back.cluster.client.indices.get_mapping(index=templates.EVENTS.alias(connection.prefix))
    assert all("extra" in each["mappings"]["properties"] for each in mapping.values())
    back.close()


def test_after_other_templates_this_version_says_why_it_does_not_write(connection: Connection, stores: ElasticsearchStores) -> None:
    upgraded_templates(connection, works_from=templates.VERSION + 1)
    told = f"needs one that knows version {templates.VERSION + 1}; this one knows {templates.VERSION}"
    with pytest.raises(StoreUnavailable, match=told):
        ensure_templates(connection, replicas=0)
    with pytest.raises(StoreUnavailable, match=told):
        stores.incidents.write_incidents([incident(1)])


# ---- topics ----------------------------------------------------------------------------------------------------------------------


def written_later(topic: str, kind: type[msgspec.Struct], **changes: str) -> TopicRecord:
    """A record of a topic as a later version writes it: with fields and with values of closed lists that this one does not know."""
    message = full(kind)
    for path, value in changes.items():
        put(message, tuple(path.split("__")), value)
    message.MergeFromString(UNKNOWN_FIELDS["message"])
    return TopicRecord(topic=topic, key=b"acme/x", value=message.SerializeToString(), written_ns=NOW_NS)


def test_the_writer_stores_what_a_later_job_writes(connection: Connection, stores: ElasticsearchStores) -> None:
    ensure_templates(connection, replicas=0)
    kept: list[model.DeadLetter] = []
    log = structlog.wrap_logger(structlog.PrintLogger(), wrapper_class=structlog.make_filtering_bound_logger(50))
    writer = BatchWriter(
        context_targets(stores.context, stores.incidents), kept.extend, FixedClock(), WriterMetrics(CollectorRegistry()), log
    )
    changes = {"tenant": "acme", "evidence__kind": "profile", "ranks__role": "bystander", "symptom": "new_symptom", "state": "paused"}
    writer.handle(
        [
            written_later(INCIDENTS, model.Incident, **changes),
            written_later(RUNS, model.RunStatus, tenant="acme", state="draining"),
            written_later(EVENTS, model.Event, identity__tenant="acme", text_role="bystander"),
        ]
    )
    assert kept == []
    query = ListQuery(tenant="acme")
    ((found, triage),) = stores.incidents.incidents(query, NOW_NS).items
    document = incident_document(found, triage)
    assert schemas.Incident.model_validate(document).symptom == "new_symptom"
    assert [each["kind"] for each in document["evidence"]] == ["log"]
    assert [each["role"] for each in document["ranks"]] == ["unknown"]
    assert document["state"] == "open"
    assert [each.state for each in stores.incidents.runs(query).items] == ["unreachable"]
    assert [each.text_role for each in stores.context.events(query).items] == ["unknown"]
    assert stores.context.dead_letters(query).items == []
