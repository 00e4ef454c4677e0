"""`firstfault up`: the whole service in one process, until SIGTERM or SIGINT."""

from pathlib import Path
from typing import Annotated

import typer

from firstfault_server import settings as configuration
from firstfault_server.cli import terminal
from firstfault_server.cli.embedded import start_embedded
from firstfault_server.cli.process import run

app = terminal.application("Run the whole service in this process.")
app.info.no_args_is_help = False


@app.command()
def up(
    data: Annotated[
        str | None, typer.Option(metavar="PATH", help="Folder for everything the service keeps; made if missing.", show_default=False)
    ] = None,
    api: Annotated[str | None, typer.Option(help="Address of the REST API; port 0 takes a free one.", show_default=False)] = None,
    otlp_http: Annotated[str | None, typer.Option(help="Address of the OTLP/HTTP receiver.", show_default=False)] = None,
    otlp_grpc: Annotated[str | None, typer.Option(help="Address of the OTLP/gRPC receiver.", show_default=False)] = None,
    config: Annotated[Path | None, typer.Option(help="TOML file with settings.", show_default=False)] = None,
) -> None:
    """Run the whole service in this process: receive OTLP, detect, store, serve the API, send alerts."""
    try:
        settings = configuration.load(config, data=data, api=api, otlp_http=otlp_http, otlp_grpc=otlp_grpc)
    except configuration.SettingsError as error:
        terminal.fail(str(error), terminal.EXIT_USAGE)
    run(start_embedded, "up", settings)


def main(argv: list[str]) -> int:
    """Entry of the command."""
    return terminal.run(app, argv, "up")
