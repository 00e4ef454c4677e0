"""Polls the stores for what no record announces, through outages and for every tenant."""

import asyncio
from collections.abc import Callable
from typing import Final

from structlog.typing import FilteringBoundLogger

from firstfault_server import ports
from firstfault_server.core.access import DEFAULT_TENANT
from firstfault_server.telemetry import AlertMetrics

EVERY_S: Final = 10.0


async def poll(look: Callable[[], None], trouble: str, metrics: AlertMetrics, log: FilteringBoundLogger, every_s: float = EVERY_S) -> None:
    """Look at once and then every so often, in a thread and for ever. Ends by cancellation.

    A look that raises StoreUnavailable is counted, and logged as `trouble`; the next one has to make up for it.
    """
    while True:
        try:
            await asyncio.to_thread(look)
        except ports.StoreUnavailable as error:
            metrics.errors.labels(type(error).__name__).inc()
            log.error(trouble, reason=str(error))
        await asyncio.sleep(every_s)


def tenants(access: ports.AccessStore) -> list[str]:
    """Every tenant that has or had a key, and the one of a service without keys. Raises StoreUnavailable."""
    return sorted({DEFAULT_TENANT, *(key.tenant for key in access.keys(None))})
