"""Polling goes on through outages, which are counted."""

import asyncio
import threading
from contextlib import suppress

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import CapturingLogger

from firstfault_server import ports
from firstfault_server.adapters import memory
from firstfault_server.alerter.polling import poll, tenants
from firstfault_server.telemetry import AlertMetrics
from tests.contract.records import NOW_NS, FixedClock


def test_a_look_that_an_outage_refused_is_counted_told_and_followed_by_another() -> None:
    registry, log = CollectorRegistry(), CapturingLogger()
    looks: list[int] = []
    enough = threading.Event()

    def look() -> None:
        looks.append(len(looks))
        if len(looks) == 1:
            raise ports.StoreUnavailable("the store is away")
        enough.set()

    async def scenario() -> None:
        polling = asyncio.create_task(poll(look, "nothing can be looked for", AlertMetrics(registry), log, every_s=0))
        assert await asyncio.to_thread(enough.wait, 10)
        polling.cancel()
        with suppress(asyncio.CancelledError):
            await polling

    asyncio.run(scenario())
    assert [(call.method_name, call.args, call.kwargs) for call in log.calls] == [
        ("error", ("nothing can be looked for",), {"reason": "the store is away"})
    ]
    assert registry.get_sample_value("firstfault_alert_loop_errors_total", {"error": "StoreUnavailable"}) == 1


def test_what_is_no_outage_ends_the_loop() -> None:
    def look() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        asyncio.run(poll(look, "nothing", AlertMetrics(CollectorRegistry()), CapturingLogger()))


def test_tenants_are_those_with_keys_and_the_one_without() -> None:
    access = memory.open_stores(FixedClock()).access
    for name, tenant in (("a", "zebra"), ("b", "acme"), ("c", "acme")):
        access.put_key(ports.AccessKey(id=name, tenant=tenant, name=name, secret_hash=name, scopes=["read"], created_ns=NOW_NS))
    assert tenants(access) == ["acme", "default", "zebra"]
