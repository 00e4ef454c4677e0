"""The REST API as a part of a process, over whichever stores the deployment has."""

import socket
from typing import Protocol

from firstfault_server import ports
from firstfault_server.alerter.delivery import Deliverer
from firstfault_server.api.app import create_app
from firstfault_server.api.changes import Changes
from firstfault_server.api.services import Readiness, Services, TriageChanged
from firstfault_server.cli import addresses, alerting
from firstfault_server.cli.process import Process
from firstfault_server.cli.servers import HttpServer
from firstfault_server.cli.tracing import traced_app
from firstfault_server.settings import Settings


class Stores(Protocol):
    """Every store but the aggregates."""

    @property
    def incidents(self) -> ports.IncidentStore:
        """Incidents and runs."""

    @property
    def context(self) -> ports.ContextStore:
        """Events."""

    @property
    def triage(self) -> ports.TriageStore:
        """People's marks."""

    @property
    def silences(self) -> ports.SilenceStore:
        """Silences."""

    @property
    def access(self) -> ports.AccessStore:
        """Keys and destinations."""

    @property
    def outbox(self) -> ports.Outbox:
        """Messages and tries."""


async def serve_api(
    process: Process,
    listener: socket.socket,
    stores: Stores,
    aggregates: ports.AggregateStore,
    *,
    changes: Changes,
    deliverer: Deliverer,
    triage_changed: TriageChanged,
    readiness: Readiness,
    degraded: Readiness = dict,
    cursor_secret: bytes,
) -> None:
    """Serve until the end; open streams are ended first."""
    settings = process.settings
    services = Services(
        incidents=stores.incidents,
        context=stores.context,
        triage=stores.triage,
        silences=stores.silences,
        access=stores.access,
        outbox=stores.outbox,
        aggregates=aggregates,
        clock=process.clock,
        registry=process.registry,
        log=process.log,
        cursor_secret=cursor_secret,
        changes=changes,
        triage_changed=triage_changed,
        test_destination=deliverer.test,
        readiness=lambda: {**process.broken, **readiness()},
        degraded=degraded,
        url_problem=alerting.url_problem,
        base_url=base_url(settings, addresses.bound(listener)),
        allowed_hosts=frozenset(settings.allowed_hosts),
        allowed_origins=frozenset(settings.allowed_origins),
    )
    await process.serve(HttpServer(traced_app(create_app(services), process.tracer), listener, settings.drain_s))
    process.stack.push_async_callback(changes.close)


def base_url(settings: Settings, api: addresses.Address) -> str:
    """Start of the links in messages; a wildcard address is none that people can open."""
    host = socket.gethostname() if api.host in {"0.0.0.0", "::"} else api.host
    return settings.public_url.rstrip("/") or f"http://{addresses.Address(host=host, port=api.port)}"
