"""A service as a process: builds its parts in order, says when it is ready, runs until a signal, ends its parts in reverse."""

import asyncio
import os
import signal
import socket
import sys
import threading
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Final, NoReturn, TypeAlias

from opentelemetry.trace import Tracer
from prometheus_client import CollectorRegistry
from structlog.typing import FilteringBoundLogger

from firstfault_server import ports, telemetry
from firstfault_server.cli import addresses, record_types, terminal, variables
from firstfault_server.cli.clocks import SystemClock
from firstfault_server.cli.own_telemetry import OwnTelemetry
from firstfault_server.cli.servers import GrpcServer, HttpServer
from firstfault_server.settings import Settings, SettingsError

STOP_WITHIN_S: Final = 13.0
"""A stop that takes longer is cut short: what was acknowledged is durable by then."""


class StartError(Exception):
    """The service cannot start as it was asked to; the message says what to change."""


@dataclass(frozen=True, kw_only=True)
class Process:
    """What every part of a service is built with; what is entered into the stack ends with the process."""

    settings: Settings
    log: FilteringBoundLogger
    clock: ports.Clock
    registry: CollectorRegistry
    tracer: Tracer
    stack: AsyncExitStack
    broken: dict[str, str] = field(default_factory=dict)
    """Background parts that have ended by an error of their own, and by which; readiness has to say so."""

    def listen(self, address: addresses.Address) -> socket.socket:
        """A listening socket. Raises AddressError."""
        listener = addresses.listen(address)
        self.stack.callback(listener.close)
        return listener

    async def serve(self, server: HttpServer | GrpcServer) -> None:
        """Serve until the end."""
        await server.start()
        self.stack.push_async_callback(server.stop)

    def background(self, work: Coroutine[None, None, None], name: str) -> None:
        """Run a task until the end."""
        task = asyncio.create_task(self._guarded(work, name), name=name)

        async def end() -> None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            # Where a start fails at once the task is cancelled before its first step, and the work within was never begun.
            work.close()

        self.stack.push_async_callback(end)

    async def _guarded(self, work: Coroutine[None, None, None], name: str) -> None:
        try:
            await work
        except Exception as error:
            self.broken[name] = f"has ended: {type(error).__name__}: {error}"
            self.log.error("a part of the service has ended by an error of its own; restart the service", part=name, exc_info=error)


Start: TypeAlias = Callable[[Process], Awaitable[str]]
"""Builds and starts a service; returns its ready line (contract.md)."""


@asynccontextmanager
async def running(start: Start, name: str, settings: Settings, log: FilteringBoundLogger, lines: telemetry.Lines) -> AsyncIterator[str]:
    """Run a service for the length of the block, which gets its ready line. Raises StartError."""
    record_types.meet()
    async with AsyncExitStack() as stack:
        registry = telemetry.registry(lines)
        own = OwnTelemetry(
            f"firstfault-{name}",
            uuid.uuid4().hex,
            version("firstfault-server"),
            settings.telemetry_endpoint,
            settings.telemetry_interval_s,
            settings.telemetry_share,
            registry,
            log,
        )
        stack.callback(own.stop)
        process = Process(settings=settings, log=log, clock=SystemClock(), registry=registry, tracer=own.tracer, stack=stack)
        try:
            ready_line = await start(process)
        except (ports.StoreUnavailable, addresses.AddressError, SettingsError, OSError) as error:
            raise StartError(str(error)) from error
        yield ready_line
        log.info("stopping")


def run(start: Start, name: str, settings: Settings) -> NoReturn:
    """Run a service until SIGTERM or SIGINT, and end the process. Its own telemetry has `name`."""
    import uvloop

    lines = telemetry.Lines(sys.stderr)
    log = telemetry.logger(settings.log_level, settings.log_format, lines)
    for misspelt in variables.warnings(os.environ):
        log.warning(misspelt)
    try:
        with telemetry.bridged(log), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_until_signal(start, name, settings, log, lines))
    except StartError as error:
        terminal.fail(str(error), terminal.EXIT_USAGE)
    # All stores are closed. Threads of engines and clients would take seconds to end, or may just be starting.
    os._exit(terminal.EXIT_DONE)


async def _until_signal(start: Start, name: str, settings: Settings, log: FilteringBoundLogger, lines: telemetry.Lines) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def asked(number: signal.Signals) -> None:
        if not stop.is_set():
            log.info("asked to stop", signal=number.name)
            _cut_short(log)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, asked, number)
    async with running(start, name, settings, log, lines) as ready_line:
        sys.stdout.write(ready_line + "\n")
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
