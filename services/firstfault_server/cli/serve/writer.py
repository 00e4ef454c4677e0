"""`firstfault serve writer`: two loops, so that an outage of one store holds up nothing that goes to the other."""

from collections.abc import Mapping

from firstfault_server.adapters.kafka import ConsumerLoop, RecordSender, Take
from firstfault_server.cli import connections
from firstfault_server.cli.process import Process
from firstfault_server.cli.serve.health import serve_health
from firstfault_server.cli.serve.loops import consume
from firstfault_server.cli.serve.stores import open_aggregates, open_context_stores
from firstfault_server.cli.serve.watching import watch_clickhouse, watch_elasticsearch
from firstfault_server.telemetry import ConsumingMetrics
from firstfault_server.writer.batches import BatchWriter, Target, aggregate_targets, context_targets
from firstfault_server.writer.history import History
from firstfault_server.writer.retention import Retention, RetentionMetrics
from firstfault_server.writer.rules import retention_rules
from firstfault_server.writer.telemetry import WriterMetrics

CONTEXT_TAKE = Take(records=1000, bytes=8 << 20)
AGGREGATES_TAKE = Take(records=2000, bytes=16 << 20, linger_s=1.0)
"""Every insert makes a part that ClickHouse has to merge: few large ones."""


async def start_writer(process: Process) -> str:
    """Start everything; returns the ready line."""
    stores, aggregates = open_context_stores(process), open_aggregates(process)
    metrics, consuming = WriterMetrics(process.registry), ConsumingMetrics(process.registry)
    connection = connections.kafka_connection(process.settings)

    def loop(name: str, targets: Mapping[str, Target], take: Take) -> ConsumerLoop:
        # A sender of its own, since loops run at the same time.
        sender = RecordSender(connection, process.settings.kafka_prefix)
        writer = BatchWriter(targets, sender.send, process.clock, metrics, process.log)
        return consume(process, name, list(targets), f"writer-{name}", writer.handle, consuming, take)

    loops = [
        loop("context", context_targets(stores.context, stores.incidents), CONTEXT_TAKE),
        loop("aggregates", aggregate_targets(aggregates), AGGREGATES_TAKE),
    ]
    history = History(incidents=stores.incidents, triage=stores.triage, silences=stores.silences, outbox=stores.outbox)
    kept = retention_rules(process.settings, history, stores.context, aggregates)
    retention = Retention(kept, process.clock, RetentionMetrics(process.registry), process.log)
    process.background(retention.run(leads=lambda: loops[0].leads), "retention")
    # A loop hears of its store with the next batch, which may be long in coming.
    watches = [watch_elasticsearch(process, stores), watch_clickhouse(process, aggregates)]

    def problems() -> dict[str, str]:
        return {each.name: each.problem or watch.problem for each, watch in zip(loops, watches, strict=True)}

    address = await serve_health(process, process.settings.writer_health, problems)
    return f"ready health={address}"
