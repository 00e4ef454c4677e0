"""Delivery of messages as a part of a process."""

import asyncio
import random
import secrets
from contextlib import suppress

from firstfault_server import ports
from firstfault_server.alerter.delivery import Deliverer
from firstfault_server.alerter.sinks.addresses import RefusedAddress, check_url
from firstfault_server.alerter.sinks.webhook import WebhookSink
from firstfault_server.cli.process import Process
from firstfault_server.cli.tracing import TracedSink
from firstfault_server.telemetry import AlertMetrics


def make_deliverer(process: Process, outbox: ports.Outbox, access: ports.AccessStore, metrics: AlertMetrics) -> Deliverer:
    """Delivers to every kind of destination; it does not run yet."""
    sink = TracedSink(WebhookSink(timeout_s=process.settings.alert_timeout_s), process.tracer)
    process.stack.push_async_callback(sink.close)
    return Deliverer(
        outbox,
        access,
        {"webhook": sink},
        process.clock,
        metrics,
        process.log,
        random.Random(secrets.randbits(64)),
        lambda: secrets.token_hex(8),
    )


def deliver(process: Process, deliverer: Deliverer) -> None:
    """Deliver what the outbox holds, until the end."""
    stop = asyncio.Event()
    delivering = asyncio.create_task(deliverer.run(stop), name="delivery")

    async def end() -> None:
        # A try under way is recorded, or made again with the same id after the next start.
        stop.set()
        done, _ = await asyncio.wait([delivering], timeout=process.settings.drain_s / 2)
        if not done:
            delivering.cancel()
            with suppress(asyncio.CancelledError):
                await delivering

    process.stack.push_async_callback(end)


def url_problem(url: str, allow_private: bool) -> str:
    """Why messages cannot be sent to a URL; empty: they can."""
    try:
        check_url(url, allow_private)
    except RefusedAddress as error:
        return str(error)
    return ""
