"""Loops over topics as parts of a process."""

import asyncio
from collections.abc import Sequence

from firstfault_server.adapters.kafka import ConsumerLoop, GroupConsumer, Take
from firstfault_server.adapters.kafka.consuming import Handler
from firstfault_server.cli import connections
from firstfault_server.cli.process import Process
from firstfault_server.cli.tracing import traced_handler
from firstfault_server.telemetry import ConsumingMetrics


def consume(
    process: Process, name: str, topics: Sequence[str], group: str, handle: Handler, metrics: ConsumingMetrics, take: Take
) -> ConsumerLoop:
    """A loop that runs until the end; the batch under way is finished then. Raises SettingsError."""
    connection = connections.kafka_connection(process.settings)
    loop = ConsumerLoop(
        name,
        lambda: GroupConsumer(connection, process.settings.kafka_prefix, topics, group, take),
        traced_handler(handle, process.tracer, name),
        metrics,
    )

    async def end() -> None:
        if not await asyncio.to_thread(loop.stop, process.settings.drain_s):
            process.log.warning("a batch was not finished in time; it is handled again after the next start", loop=name)

    process.stack.push_async_callback(end)
    loop.start()
    return loop
