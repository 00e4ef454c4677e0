"""`firstfault serve alerter`: plans messages for what detection writes, and delivers what the outbox holds."""

import asyncio

from firstfault_server import telemetry
from firstfault_server.adapters.elasticsearch import ElasticsearchStores
from firstfault_server.adapters.kafka import Take
from firstfault_server.alerter.incoming import IncidentPlanning
from firstfault_server.alerter.planning import Planner
from firstfault_server.alerter.recorded import RecordedMarks
from firstfault_server.alerter.unmuting import EndOfMutes
from firstfault_server.cli import alerting
from firstfault_server.cli.process import Process
from firstfault_server.cli.serve.health import serve_health
from firstfault_server.cli.serve.loops import consume
from firstfault_server.cli.serve.stores import open_context_stores
from firstfault_server.core import model
from firstfault_server.ports import StoreUnavailable
from firstfault_server.wire import outputs

TAKE = Take(records=100)


async def start_alerter(process: Process) -> str:
    """Start everything; returns the ready line."""
    settings, log, clock = process.settings, process.log, process.clock
    stores = open_context_stores(process)
    process.stack.push_async_callback(_release, process, stores)
    metrics = telemetry.AlertMetrics(process.registry)
    deliverer = alerting.make_deliverer(process, stores.outbox, stores.access, metrics)
    alerting.deliver(process, deliverer)
    if not settings.public_url:
        log.warning("messages hold no links; set public_url to the address under which people reach the API")
    planner = Planner(stores.outbox, stores.access, stores.triage, stores.silences, clock, metrics, log, settings.public_url.rstrip("/"))
    event_loop = asyncio.get_running_loop()

    def wake() -> None:
        event_loop.call_soon_threadsafe(deliverer.wake)

    def changed(incident: model.Incident, triage: model.Triage) -> None:
        if planner.queue_marked(incident, triage):
            wake()

    planning = IncidentPlanning(planner, wake, metrics, log)
    loop = consume(
        process, "incidents", [outputs.INCIDENTS], "alerter", planning.handle, telemetry.ConsumingMetrics(process.registry), TAKE
    )
    mutes = EndOfMutes(stores.incidents, stores.silences, stores.access, clock, changed, metrics, log)
    process.background(mutes.run(), "mutes")
    marks = RecordedMarks(stores.triage, stores.incidents, stores.access, clock, changed, metrics, log)
    process.background(marks.run(), "marks")
    health = await serve_health(process, settings.alerter_health, lambda: {"incidents": loop.problem, "delivery": deliverer.problem})
    return f"ready health={health}"


async def _release(process: Process, stores: ElasticsearchStores) -> None:
    """What this process took and did not deliver, others may have at once."""
    try:
        await asyncio.to_thread(stores.outbox.release)
    except StoreUnavailable as error:
        process.log.warning("messages that were taken come due for others when their lease ends", reason=str(error))
