"""The whole service in one process: builds every part of the embedded deployment, starts them in order, stops them in reverse."""

import asyncio
from collections.abc import Iterable

from firstfault_server import ports, telemetry
from firstfault_server.adapters.filelog import FileLog
from firstfault_server.adapters.sqlite import SqliteStores, open_stores
from firstfault_server.alerter.delivery import Deliverer
from firstfault_server.alerter.planning import AlertingCheckpoint, Planner
from firstfault_server.alerter.unmuting import EndOfMutes
from firstfault_server.api.changes import Changes
from firstfault_server.cli import addresses, alerting, rest, secret_file
from firstfault_server.cli.detection import build_detection, open_aggregates
from firstfault_server.cli.process import Process, StartError
from firstfault_server.cli.publishing import PublishingCheckpoint
from firstfault_server.cli.servers import GrpcServer, HttpServer
from firstfault_server.detect.keyed import SnapshotUnreadable
from firstfault_server.ingest.access import Access
from firstfault_server.ingest.clock import ReceiveClock, write_clock_records
from firstfault_server.ingest.grpc import otlp_server
from firstfault_server.ingest.http import otlp_app
from firstfault_server.ingest.receiver import Limits, Receiver
from firstfault_server.ingest.telemetry import IngestMetrics


async def start_embedded(process: Process) -> str:
    """Start everything; returns the ready line. Raises StartError and what `process.running` turns into it."""
    settings, log, clock, registry, stack = process.settings, process.log, process.clock, process.registry, process.stack
    wanted = {"api": settings.api, "otlp_http": settings.otlp_http, "otlp_grpc": settings.otlp_grpc}
    parsed = {name: addresses.parse(text) for name, text in wanted.items()}
    settings.data.mkdir(mode=0o700, parents=True, exist_ok=True)
    stores = open_stores(settings.data / "firstfault.sqlite", clock)
    stack.callback(stores.close)
    refuse_open_addresses(parsed.values(), stores.access)
    api, otlp_http = process.listen(parsed["api"]), process.listen(parsed["otlp_http"])

    input_log = FileLog(settings.data / "log", beyond=stores.checkpoint.position())
    stack.callback(input_log.close)
    aggregates = open_aggregates(settings.data, log)
    stack.callback(aggregates.close)
    deliverer, checkpoint = _alerting(process, stores, rest.base_url(settings, addresses.bound(api)))
    changes = Changes()
    changes.bind(asyncio.get_running_loop())
    committing = PublishingCheckpoint(checkpoint, changes.publish)
    detection = build_detection(settings, log, input_log, committing, stores, aggregates, clock, registry)
    try:
        await stack.enter_async_context(detection.running())
    except SnapshotUnreadable as error:
        raise StartError(str(error)) from error

    await rest.serve_api(
        process,
        api,
        stores,
        aggregates,
        changes=changes,
        deliverer=deliverer,
        triage_changed=checkpoint.triage_changed,
        readiness=lambda: {**detection.problems(), **({"alerts": deliverer.problem} if deliverer.problem else {})},
        cursor_secret=secret_file.load_or_make(settings.data / "cursor.secret"),
    )

    receive_clock = ReceiveClock(clock, not_before_ns=input_log.newest_received_ns)
    receiver = Receiver(
        input_log, Access(stores.access), receive_clock, IngestMetrics(registry), Limits(tenant_bytes_per_s=settings.tenant_bytes_per_s)
    )
    grpc = GrpcServer(otlp_server(receiver), parsed["otlp_grpc"], settings.drain_s)
    process.background(write_clock_records(input_log, receive_clock), "clock")
    await process.serve(grpc)
    await process.serve(HttpServer(otlp_app(receiver), otlp_http, settings.drain_s))
    return f"ready api={addresses.bound(api)} otlp-http={addresses.bound(otlp_http)} otlp-grpc={grpc.address}"


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


def _alerting(process: Process, stores: SqliteStores, base_url: str) -> tuple[Deliverer, AlertingCheckpoint]:
    log, clock = process.log, process.clock
    metrics = telemetry.AlertMetrics(process.registry)
    deliverer = alerting.make_deliverer(process, stores.outbox, stores.access, metrics)
    planner = Planner(stores.outbox, stores.access, stores.triage, stores.silences, clock, metrics, log, base_url)
    loop = asyncio.get_running_loop()

    def wake() -> None:
        loop.call_soon_threadsafe(deliverer.wake)

    checkpoint = AlertingCheckpoint(stores.checkpoint, planner, wake)
    alerting.deliver(process, deliverer)
    mutes = EndOfMutes(stores.incidents, stores.silences, stores.access, clock, checkpoint.triage_changed, metrics, log)
    process.background(mutes.run(), "mutes")
    return deliverer, checkpoint
