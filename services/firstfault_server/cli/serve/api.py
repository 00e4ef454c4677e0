"""`firstfault serve api`: the REST API over the stores of the distributed service."""

import asyncio
import secrets

from firstfault_server import telemetry
from firstfault_server.adapters.kafka.tail import Tail
from firstfault_server.alerter.planning import Planner
from firstfault_server.api.changes import Changes
from firstfault_server.api.following import Following
from firstfault_server.cli import addresses, alerting, connections, rest
from firstfault_server.cli.process import Process
from firstfault_server.cli.serve.stores import open_aggregates, open_context_stores
from firstfault_server.cli.serve.watching import watch_clickhouse, watch_elasticsearch
from firstfault_server.core import model
from firstfault_server.wire import outputs


async def start_api(process: Process) -> str:
    """Start everything; returns the ready line."""
    settings = process.settings
    stores, aggregates = open_context_stores(process), open_aggregates(process)
    listener = process.listen(addresses.parse(settings.api))
    metrics = telemetry.AlertMetrics(process.registry)
    base_url = rest.base_url(settings, addresses.bound(listener))
    planner = Planner(stores.outbox, stores.access, stores.triage, stores.silences, process.clock, metrics, process.log, base_url)

    def triage_changed(incident: model.Incident, triage: model.Triage) -> None:
        # Alerters find what lies in the outbox by themselves.
        planner.queue_marked(incident, triage)

    changes = Changes()
    changes.bind(asyncio.get_running_loop())
    tail = Tail(connections.kafka_connection(settings), settings.kafka_prefix, outputs.INCIDENTS)
    process.stack.callback(tail.close)
    following = Following(tail.read, stores.incidents, stores.triage, changes, process.clock)
    process.stack.push_async_callback(asyncio.to_thread, following.stop, settings.drain_s)
    following.start()
    elasticsearch, clickhouse = watch_elasticsearch(process, stores), watch_clickhouse(process, aggregates)
    await rest.serve_api(
        process,
        listener,
        stores,
        aggregates,
        changes=changes,
        deliverer=alerting.make_deliverer(process, stores.outbox, stores.access, metrics),
        triage_changed=triage_changed,
        # Nothing can be answered without Elasticsearch: keys are there, too.
        readiness=lambda: {"elasticsearch": elasticsearch.problem},
        degraded=lambda: {"metrics": clickhouse.problem, "stream": following.problem},
        cursor_secret=_cursor_secret(process),
    )
    return f"ready api={addresses.bound(listener)}"


def _cursor_secret(process: Process) -> bytes:
    if process.settings.cursor_secret:
        return process.settings.cursor_secret.encode()
    process.log.warning("cursors of lists are good for this process only; set cursor_secret when there are several")
    return secrets.token_bytes(32)
