"""`firstfault migrate`: makes servers ready, changes nothing twice, waits for servers, and says which one is away."""

import json
import threading
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from deploy.native.servers.process import free_ports
from firstfault_server.adapters.clickhouse import ClickHouseAggregateStore, server_engine, tables
from firstfault_server.adapters.kafka.topics import topics
from firstfault_server.cli import commands, migrate
from firstfault_server.ports import StoreUnavailable

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]
Run = Callable[..., tuple[int, Any, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the command with these settings: exit status, items, stderr."""
    monkeypatch.setenv("HOME", "/nonexistent")

    def run(*argv: str, **settings: str) -> tuple[int, Any, str]:
        for name, value in settings.items():
            monkeypatch.setenv(f"FIRSTFAULT_{name.upper()}", value)
        status = commands()["migrate"].main([*argv, "-o", "json"])
        written = capsys.readouterr()
        return status, json.loads(written.out)["items"] if written.out else None, written.err

    return run


def test_what_is_missing_is_made_once(kafka_address: str, elasticsearch_address: str, clickhouse_url: str, run: Run) -> None:
    mark = f"t{uuid.uuid4().hex[:12]}"
    servers = {"kafka_bootstrap": kafka_address, "elasticsearch_url": elasticsearch_address, "clickhouse_url": clickhouse_url}
    own = {"kafka_prefix": mark, "elasticsearch_prefix": mark, "clickhouse_database": mark, "elasticsearch_replicas": "0"}
    status, items, _ = run(**servers, **own, kafka_partitions="5")
    assert status == 0
    assert {item["server"] for item in items} == {"kafka", "elasticsearch", "clickhouse"}
    made = {item["name"] for item in items if item["server"] == "kafka"}
    assert made == {f"topic {topic.name}" for topic in topics(mark)}
    assert run(**servers, **own)[:2] == (0, [])
    admin = AdminClient({"bootstrap.servers": kafka_address})
    there = admin.list_topics(timeout=30).topics
    assert {name: len(there[name].partitions) for name in (f"{mark}.otlp.v1", f"{mark}.incidents.v1", f"{mark}.deadletter.v1")} == {
        f"{mark}.otlp.v1": 5, f"{mark}.incidents.v1": 5, f"{mark}.deadletter.v1": 3,
    }  # fmt: skip
    for future in admin.delete_topics([topic.name for topic in topics(mark)]).values():
        future.result(30)


def test_a_server_that_is_away_is_named_and_the_others_are_done(elasticsearch_address: str, clickhouse_url: str, run: Run) -> None:
    mark = f"t{uuid.uuid4().hex[:12]}"
    (port,) = free_ports(1)
    status, items, errors = run(
        "--wait", "0.1", kafka_bootstrap=f"127.0.0.1:{port}", elasticsearch_url=elasticsearch_address, clickhouse_url=clickhouse_url,
        elasticsearch_prefix=mark, clickhouse_database=mark, elasticsearch_replicas="0",
    )  # fmt: skip
    assert status == 4
    assert {item["server"] for item in items} == {"elasticsearch", "clickhouse"}
    assert f"kafka: Kafka at 127.0.0.1:{port}" in errors.splitlines()[-1]


def test_missing_settings_are_named(run: Run) -> None:
    status, _, errors = run(kafka_bootstrap="127.0.0.1:1")
    assert status == 2
    assert "FIRSTFAULT_ELASTICSEARCH_URL, FIRSTFAULT_CLICKHOUSE_URL: not set" in errors


def test_a_server_that_is_starting_is_waited_for(capsys: pytest.CaptureFixture[str]) -> None:
    started = threading.Event()

    def step() -> list[migrate.Change]:
        if not started.is_set():
            started.set()
            raise StoreUnavailable("still starting")
        return [{"server": "x"}]

    assert migrate.run({"x": step}, 30) == ([{"server": "x"}], {})
    assert "waiting for x" in capsys.readouterr().err


def test_installations_with_different_prefixes_share_a_cluster() -> None:
    assert [topic.name for topic in topics("blue")][:2] == ["blue.otlp.v1", "blue.rollups.v1"]
    assert len({topic.name for prefix in ("blue", "firstfault") for topic in topics(prefix)}) == 2 * len(topics("blue"))


def test_services_do_not_make_tables_themselves(clickhouse_url: str) -> None:
    mark = f"t{uuid.uuid4().hex[:12]}"
    engine = server_engine(clickhouse_url, clients=1)
    with pytest.raises(StoreUnavailable, match="firstfault migrate"):
        ClickHouseAggregateStore(engine, database=mark, upgrade=False)
    assert tables.migrate(engine, mark) == [1]
    assert tables.migrate(engine, mark) == []
    ClickHouseAggregateStore(engine, database=mark, upgrade=False)
    engine.command(f"DROP DATABASE {mark}")
    engine.close()
