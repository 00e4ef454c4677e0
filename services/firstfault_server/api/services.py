"""What the routes work with: stores, clock and settings, handed to the app once by the composition root."""

import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated

from fastapi import Depends, Request
from prometheus_client import CollectorRegistry
from structlog.typing import FilteringBoundLogger

from firstfault_server import ports
from firstfault_server.api.changes import Changes
from firstfault_server.core import model

TriageChanged = Callable[[model.Incident, model.Triage], None]
"""Called after a person changed an incident's marks: queues the messages that follow from it."""
DestinationTest = Callable[[ports.Destination], Awaitable[ports.Delivery]]
"""Sends one test message now and returns the try."""
UrlProblem = Callable[[str, bool], str]
"""Why messages cannot be sent to a URL, given whether private addresses are allowed; empty: they can."""
Readiness = Callable[[], Mapping[str, str]]
"""Why each part does not work now; parts that work are left out, or empty."""


@dataclass(frozen=True, kw_only=True)
class Services:
    """Everything a route may touch."""

    incidents: ports.IncidentStore
    context: ports.ContextStore
    triage: ports.TriageStore
    silences: ports.SilenceStore
    access: ports.AccessStore
    outbox: ports.Outbox
    aggregates: ports.AggregateStore
    clock: ports.Clock
    registry: CollectorRegistry
    log: FilteringBoundLogger
    cursor_secret: bytes
    changes: Changes
    triage_changed: TriageChanged
    test_destination: DestinationTest
    readiness: Readiness
    """Parts without which nothing can be answered."""
    url_problem: UrlProblem
    degraded: Readiness = dict
    """Parts without which some things cannot be answered."""
    base_url: str = ""
    """Start of links to incidents, without a trailing slash."""
    allowed_hosts: frozenset[str] = frozenset()
    allowed_origins: frozenset[str] = frozenset()
    new_secret: Callable[[], bytes] = field(default=lambda: secrets.token_bytes(32))
    new_id: Callable[[], str] = field(default=lambda: secrets.token_hex(12))


def services_of(request: Request) -> Services:
    """The services of the app that serves this request."""
    services: Services = request.app.state.services
    return services


WithServices = Annotated[Services, Depends(services_of)]
