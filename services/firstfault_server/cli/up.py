"""`firstfault up`: the whole service in one process, until SIGTERM or SIGINT."""

import asyncio
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Annotated

import typer
from structlog.typing import FilteringBoundLogger

from firstfault_server import settings as configuration
from firstfault_server import telemetry
from firstfault_server.cli import terminal
from firstfault_server.cli.embedded import StartError, embedded_service

STOP_WITHIN_S = 13.0
"""A stop that takes longer is cut short: what was acknowledged is durable by then."""

app = terminal.application("Run the whole service in this process.")
app.info.no_args_is_help = False


@app.command()
def up(
    data: Annotated[Path | None, typer.Option(help="Folder for everything the service keeps; made if missing.", show_default=False)] = None,
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
    try:
        _run(settings)
    except StartError as error:
        terminal.fail(str(error), terminal.EXIT_USAGE)


def _run(settings: configuration.Settings) -> None:
    import uvloop

    lines = telemetry.Lines(sys.stderr)
    log = telemetry.logger(settings.log_level, settings.log_format, lines)
    with telemetry.bridged(log), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(settings, log, lines))
    # All stores are closed. The metrics engine's own threads would take seconds to end, or may just be starting.
    os._exit(terminal.EXIT_DONE)


async def _serve(settings: configuration.Settings, log: FilteringBoundLogger, lines: telemetry.Lines) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def asked(number: signal.Signals) -> None:
        if not stop.is_set():
            log.info("asked to stop", signal=number.name)
            _cut_short(log)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, asked, number)
    async with embedded_service(settings, log, lines) as running:
        sys.stdout.write(running.ready_line + "\n")
        sys.stdout.flush()
        await stop.wait()
    log.info("stopped")


def _cut_short(log: FilteringBoundLogger) -> None:
    def end() -> None:
        log.warning("stopping took too long and was cut short; nothing acknowledged is lost", after_s=STOP_WITHIN_S)
        os._exit(0)

    timer = threading.Timer(STOP_WITHIN_S, end)
    timer.daemon = True
    timer.start()


def main(argv: list[str]) -> int:
    """Entry of the command."""
    return terminal.run(app, argv, "up")
