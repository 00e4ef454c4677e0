"""The whole service in one process: builds every part of the embedded deployment, starts them in order, stops them in reverse."""

import asyncio
import random
import secrets
import socket
from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass

from prometheus_client import CollectorRegistry
from structlog.typing import FilteringBoundLogger

from firstfault_server import ports, telemetry
from firstfault_server.adapters.filelog import FileLog
from firstfault_server.adapters.sqlite import SqliteStores, open_stores
from firstfault_server.alerter.delivery import Deliverer
from firstfault_server.alerter.planning import AlertingCheckpoint, Planner
from firstfault_server.alerter.sinks.addresses import RefusedAddress, check_url
from firstfault_server.alerter.sinks.webhook import WebhookSink
from firstfault_server.alerter.unmuting import EndOfMutes
from firstfault_server.api.app import create_app
from firstfault_server.api.changes import Changes
from firstfault_server.api.services import Services
from firstfault_server.cli import addresses, secret_file
from firstfault_server.cli.clocks import SystemClock
from firstfault_server.cli.detection import Detection, build_detection, open_aggregates
from firstfault_server.cli.publishing import PublishingCheckpoint
from firstfault_server.cli.servers import GrpcServer, HttpServer
from firstfault_server.detect.keyed import SnapshotUnreadable
from firstfault_server.ingest.access import Access
from firstfault_server.ingest.clock import ReceiveClock, write_clock_records
from firstfault_server.ingest.grpc import otlp_server
from firstfault_server.ingest.http import otlp_app
from firstfault_server.ingest.receiver import Receiver
from firstfault_server.ingest.telemetry import IngestMetrics
from firstfault_server.settings import Settings, SettingsError


class StartError(Exception):
    """The service cannot start as it was asked to; the message says what to change."""


@dataclass(frozen=True, kw_only=True)
class Running:
    """Where a started service listens."""

    api: addresses.Address
    otlp_http: addresses.Address
    otlp_grpc: addresses.Address

    @property
    def ready_line(self) -> str:
        """First line on stdout (contract.md)."""
        return f"ready api={self.api} otlp-http={self.otlp_http} otlp-grpc={self.otlp_grpc}"


@asynccontextmanager
async def embedded_service(settings: Settings, log: FilteringBoundLogger, lines: telemetry.Lines) -> AsyncIterator[Running]:
    """Run the service for the length of the block. Raises StartError."""
    async with AsyncExitStack() as stack:
        try:
            running = await _start(settings, log, lines, stack)
        except (ports.StoreUnavailable, addresses.AddressError, SettingsError, SnapshotUnreadable, OSError) as error:
            raise StartError(str(error)) from error
        yield running
        log.info("stopping")


async def _start(settings: Settings, log: FilteringBoundLogger, lines: telemetry.Lines, stack: AsyncExitStack) -> Running:
    wanted = {name: addresses.parse(text) for name, text in _addresses(settings).items()}
    settings.data.mkdir(mode=0o700, parents=True, exist_ok=True)
    clock = SystemClock()
    registry = telemetry.registry(lines)
    stores = open_stores(settings.data / "firstfault.sqlite", clock)
    stack.callback(stores.close)
    refuse_open_addresses(wanted.values(), stores.access)
    api, otlp_http = _listen(stack, wanted["api"]), _listen(stack, wanted["otlp_http"])
    base_url = _base_url(settings, addresses.bound(api))

    input_log = FileLog(settings.data / "log", beyond=stores.checkpoint.position())
    stack.callback(input_log.close)
    aggregates = open_aggregates(settings.data, log)
    stack.callback(aggregates.close)
    deliverer, checkpoint = _alerting(settings, log, stores, clock, registry, base_url, stack)
    changes = Changes()
    changes.bind(asyncio.get_running_loop())
    committing = PublishingCheckpoint(checkpoint, changes.publish)
    detection = build_detection(settings, log, input_log, committing, stores, aggregates, clock, registry)
    await stack.enter_async_context(detection.running())

    cursor_secret = secret_file.load_or_make(settings.data / "cursor.secret")
    services = _services(
        settings, log, stores, aggregates, clock, registry, base_url, deliverer, checkpoint, detection, changes, cursor_secret
    )
    await _serve(stack, HttpServer(create_app(services), api, settings.drain_s))
    stack.push_async_callback(changes.close)

    receive_clock = ReceiveClock(clock, not_before_ns=input_log.newest_received_ns)
    receiver = Receiver(input_log, Access(stores.access), receive_clock, IngestMetrics(registry))
    grpc = GrpcServer(otlp_server(receiver), wanted["otlp_grpc"], settings.drain_s)
    _background(stack, write_clock_records(input_log, receive_clock), "clock")
    await _serve(stack, grpc)
    await _serve(stack, HttpServer(otlp_app(receiver), otlp_http, settings.drain_s))
    return Running(api=addresses.bound(api), otlp_http=addresses.bound(otlp_http), otlp_grpc=grpc.address)


def _addresses(settings: Settings) -> Mapping[str, str]:
    return {"api": settings.api, "otlp_http": settings.otlp_http, "otlp_grpc": settings.otlp_grpc}


def _listen(stack: AsyncExitStack, address: addresses.Address) -> socket.socket:
    listener = addresses.listen(address)
    stack.callback(listener.close)
    return listener


def refuse_open_addresses(wanted: Iterable[addresses.Address], access: ports.AccessStore) -> None:
    """Without a key that works nobody but this machine may reach the service. Raises StartError."""
    stored = access.keys()
    if any(key.revoked_ns is None for key in stored):
        return
    for address in wanted:
        if not address.loopback:
            raise StartError(
                f"{address}: without an API key the service listens on loopback addresses only; "
                "make one first: firstfault keys create --data DIR --name NAME --scope admin"
            )


def _alerting(
    settings: Settings,
    log: FilteringBoundLogger,
    stores: SqliteStores,
    clock: ports.Clock,
    registry: CollectorRegistry,
    base_url: str,
    stack: AsyncExitStack,
) -> tuple[Deliverer, AlertingCheckpoint]:
    metrics = telemetry.AlertMetrics(registry)
    sink = WebhookSink(timeout_s=settings.alert_timeout_s)
    stack.push_async_callback(sink.close)
    deliverer = Deliverer(
        stores.outbox,
        stores.access,
        {"webhook": sink},
        clock,
        metrics,
        log,
        random.Random(secrets.randbits(64)),
        lambda: secrets.token_hex(8),
    )
    planner = Planner(stores.outbox, stores.access, stores.triage, stores.silences, clock, metrics, log, base_url)
    loop = asyncio.get_running_loop()

    def wake() -> None:
        loop.call_soon_threadsafe(deliverer.wake)

    checkpoint = AlertingCheckpoint(stores.checkpoint, planner, stores.outbox, wake)
    stop = asyncio.Event()
    delivering = asyncio.create_task(deliverer.run(stop), name="delivery")

    async def end() -> None:
        # A try under way is recorded, or made again with the same id after the next start.
        stop.set()
        done, _ = await asyncio.wait([delivering], timeout=settings.drain_s / 2)
        if not done:
            delivering.cancel()
            with suppress(asyncio.CancelledError):
                await delivering

    stack.push_async_callback(end)
    mutes = EndOfMutes(stores.incidents, stores.silences, stores.access, clock, checkpoint.triage_changed, metrics, log)
    _background(stack, mutes.run(), "mutes")
    return deliverer, checkpoint


def _services(
    settings: Settings,
    log: FilteringBoundLogger,
    stores: SqliteStores,
    aggregates: ports.AggregateStore,
    clock: ports.Clock,
    registry: CollectorRegistry,
    base_url: str,
    deliverer: Deliverer,
    checkpoint: AlertingCheckpoint,
    detection: Detection,
    changes: Changes,
    cursor_secret: bytes,
) -> Services:
    return Services(
        incidents=stores.incidents,
        context=stores.context,
        triage=stores.triage,
        silences=stores.silences,
        access=stores.access,
        outbox=stores.outbox,
        aggregates=aggregates,
        clock=clock,
        registry=registry,
        log=log,
        cursor_secret=cursor_secret,
        changes=changes,
        triage_changed=checkpoint.triage_changed,
        test_destination=deliverer.test,
        readiness=lambda: {**detection.problems(), **({"alerts": deliverer.problem} if deliverer.problem else {})},
        url_problem=_url_problem,
        base_url=base_url,
        allowed_hosts=frozenset(settings.allowed_hosts),
        allowed_origins=frozenset(settings.allowed_origins),
    )


def _url_problem(url: str, allow_private: bool) -> str:
    try:
        check_url(url, allow_private)
    except RefusedAddress as error:
        return str(error)
    return ""


def _base_url(settings: Settings, api: addresses.Address) -> str:
    """Start of the links in messages; a wildcard address is none that people can open."""
    host = socket.gethostname() if api.host in {"0.0.0.0", "::"} else api.host
    return settings.public_url.rstrip("/") or f"http://{addresses.Address(host=host, port=api.port)}"


async def _serve(stack: AsyncExitStack, server: HttpServer | GrpcServer) -> None:
    await server.start()
    stack.push_async_callback(server.stop)


def _background(stack: AsyncExitStack, work: Coroutine[None, None, None], name: str) -> None:
    task = asyncio.create_task(work, name=name)

    async def end() -> None:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    stack.push_async_callback(end)
