"""`firstfault migrate`: brings Kafka topics, Elasticsearch templates and ClickHouse tables to what this version needs."""

import os
import sys
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from firstfault_server import settings as configuration
from firstfault_server.cli import connections, terminal, variables
from firstfault_server.ports import StoreUnavailable

if TYPE_CHECKING:
    from firstfault_server.adapters.kafka import Connection

RETRY_S: Final = 1.0
TELL_EVERY_S: Final = 5.0
LEAST_S: Final = 3.0
"""Given to a cluster to answer, however short the wait for one that is starting is."""

app = terminal.application("Create or upgrade Kafka topics, Elasticsearch templates and ClickHouse tables.")
app.info.no_args_is_help = False

Change = dict[str, Any]
Step = Callable[[], list[Change]]


@app.command()
def migrate(
    wait: Annotated[float, typer.Option(min=0, help="Seconds to wait for servers that are starting.")] = 60.0,
    output: terminal.OutputOption = None,
) -> None:
    """Create what is missing and upgrade what is older; run again, it changes nothing."""
    try:
        settings = configuration.load(output=output)
        connections.check_servers(settings, "kafka_bootstrap", "elasticsearch_url", "clickhouse_url")
        todo = steps(settings, connections.kafka_connection(settings), wait)
    except configuration.SettingsError as error:
        terminal.fail(str(error), terminal.EXIT_USAGE)
    for misspelt in variables.warnings(os.environ):
        sys.stderr.write(f"firstfault: {terminal.clean(misspelt)}\n")
    form = terminal.choose(settings.output)
    changes, unreachable = run(todo, wait)
    if form == "table":
        for change in changes:
            typer.echo(terminal.clean(f"{change['server']}: {change['name']} {change['what']}"))
        if not changes and not unreachable:
            typer.echo("nothing to change")
    else:
        terminal.emit({"items": changes}, form)
    if unreachable:
        terminal.fail("; ".join(f"{server}: {why}" for server, why in unreachable.items()), terminal.EXIT_UNREACHABLE)


def steps(settings: configuration.Settings, kafka: "Connection", wait_s: float) -> Mapping[str, Step]:
    """What to do on each server. Each may be run twice, and by several at once."""
    return {
        "kafka": lambda: _kafka(settings, kafka, max(LEAST_S, wait_s)),
        "elasticsearch": lambda: _elasticsearch(settings),
        "clickhouse": lambda: _clickhouse(settings),
    }


def run(steps: Mapping[str, Step], wait_s: float) -> tuple[list[Change], dict[str, str]]:
    """Changes made, and why by server where it did not succeed in time. Every server is tried, whatever the others do."""
    deadline = time.monotonic() + wait_s
    changes: list[Change] = []
    unreachable: dict[str, str] = {}
    for server, step in steps.items():
        try:
            changes += _patiently(server, step, deadline)
        except StoreUnavailable as error:
            unreachable[server] = str(error)
    return changes, unreachable


def _patiently(server: str, step: Step, deadline: float) -> list[Change]:
    told = -TELL_EVERY_S
    while True:
        try:
            return step()
        except StoreUnavailable as error:
            left = deadline - time.monotonic()
            if left <= 0:
                raise
            if time.monotonic() >= told + TELL_EVERY_S:
                told = time.monotonic()
                sys.stderr.write(terminal.clean(f"waiting for {server}, {left:.0f} s more: {error}") + "\n")
            time.sleep(min(RETRY_S, left))


def _change(server: str, name: str, what: str, done: bool = True) -> Change:
    return {"server": server, "name": name, "what": what, "done": done}


def _kafka(settings: configuration.Settings, connection: "Connection", patience_s: float) -> list[Change]:
    from firstfault_server.adapters.kafka import ensure_topics
    from firstfault_server.adapters.kafka.topics import topics

    wanted = topics(settings.kafka_prefix, settings.kafka_partitions)
    made = ensure_topics(connection, wanted, replicas=settings.kafka_replicas, patience_s=patience_s)
    return [_change("kafka", f"topic {change.topic}", change.what, change.done) for change in made]


def _elasticsearch(settings: configuration.Settings) -> list[Change]:
    from firstfault_server.adapters.elasticsearch import ensure_templates

    written = ensure_templates(
        connections.elasticsearch_connection(settings), shards=settings.elasticsearch_shards, replicas=settings.elasticsearch_replicas
    )
    return [_change("elasticsearch", f"index template {name}", "written") for name in written]


def _clickhouse(settings: configuration.Settings) -> list[Change]:
    from firstfault_server.adapters.clickhouse.tables import migrate

    engine = connections.clickhouse_engine(settings)
    try:
        applied = migrate(engine, settings.clickhouse_database)
    finally:
        engine.close()
    return [_change("clickhouse", f"database {settings.clickhouse_database}", f"brought to schema {version}") for version in applied]


def main(argv: list[str]) -> int:
    """Entry of the command."""
    return terminal.run(app, argv, "migrate")
