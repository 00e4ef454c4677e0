"""`firstfault serve …`: the services of the distributed deployment, one a process. Each starts whether or not its servers are there."""

from pathlib import Path
from typing import Annotated

import typer

from firstfault_server import settings as configuration
from firstfault_server.cli import connections, terminal
from firstfault_server.cli.process import Start, run

app = terminal.application("Run one service of the distributed deployment.")

ConfigOption = Annotated[Path | None, typer.Option(help="TOML file with settings.", show_default=False)]


@app.command()
def ingest(config: ConfigOption = None) -> None:
    """Receive OTLP over HTTP and gRPC, and write it to Kafka."""
    from firstfault_server.cli.serve.ingest import start_ingest

    _run(start_ingest, "ingest", config, "kafka_bootstrap", "elasticsearch_url")


@app.command()
def writer(config: ConfigOption = None) -> None:
    """Store what detection writes, in Elasticsearch and ClickHouse; drop what is old."""
    from firstfault_server.cli.serve.writer import start_writer

    _run(start_writer, "writer", config, "kafka_bootstrap", "elasticsearch_url", "clickhouse_url")


@app.command()
def alerter(config: ConfigOption = None) -> None:
    """Tell people of incidents, once."""
    from firstfault_server.cli.serve.alerter import start_alerter

    _run(start_alerter, "alerter", config, "kafka_bootstrap", "elasticsearch_url")


@app.command()
def api(config: ConfigOption = None) -> None:
    """Serve the REST API."""
    from firstfault_server.cli.serve.api import start_api

    _run(start_api, "api", config, "kafka_bootstrap", "elasticsearch_url", "clickhouse_url")


def _run(start: Start, name: str, config: Path | None, *needed: str) -> None:
    try:
        settings = configuration.load(config)
        connections.check_servers(settings, *needed)
        # Before anything is opened: what is refused is told in one line.
        connections.kafka_connection(settings)
    except configuration.SettingsError as error:
        terminal.fail(str(error), terminal.EXIT_USAGE)
    run(start, name, settings)


def main(argv: list[str]) -> int:
    """Entry of the command."""
    return terminal.run(app, argv, "serve")
