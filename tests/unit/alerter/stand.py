"""A stand for alerter tests: stores, planner, checkpoint, deliverer, and a clock that is moved by hand."""

import itertools
import random
from collections.abc import Mapping
from typing import Any

import structlog
from prometheus_client import CollectorRegistry

from firstfault_server import ports
from firstfault_server.adapters import memory, sqlite
from firstfault_server.alerter.delivery import Deliverer
from firstfault_server.alerter.planning import AlertingCheckpoint, Planner
from firstfault_server.alerter.sinks import Outcome, Sink
from firstfault_server.core import model
from firstfault_server.telemetry import AlertMetrics
from tests.contract.records import NOW_NS, FixedClock, incident

LOG = structlog.wrap_logger(structlog.PrintLogger(), wrapper_class=structlog.make_filtering_bound_logger(50))


class ScriptedSink:
    """Gives outcomes one after the other, then delivers; records what it was given."""

    def __init__(self, *outcomes: Outcome) -> None:
        self.outcomes = list(outcomes)
        self.sent: list[ports.Message] = []

    async def send(self, destination: ports.Destination, message: ports.Message, now_ns: int) -> Outcome:
        self.sent.append(message)
        return self.outcomes.pop(0) if self.outcomes else Outcome(delivered=True, status=204)

    async def close(self) -> None:
        """Nothing to release."""


class Stand:
    """The alerter over stores; `sink` stands for the receivers."""

    def __init__(
        self, stores: "memory.MemoryStores | sqlite.SqliteStores", sink: Sink, clock: FixedClock | None = None, **destination: Any
    ) -> None:
        self.stores = stores
        self.clock = clock or FixedClock()
        self.registry = CollectorRegistry()
        metrics = self.metrics = AlertMetrics(self.registry)
        self.planner = Planner(stores.outbox, stores.access, stores.triage, stores.silences, self.clock, metrics, LOG, "http://api.example")
        self.woken = 0
        self.checkpoint = AlertingCheckpoint(stores.checkpoint, self.planner, self._wake)
        sinks: Mapping[str, Sink] = {"webhook": sink}
        numbers = itertools.count()
        self.deliverer = Deliverer(
            stores.outbox, stores.access, sinks, self.clock, metrics, LOG, random.Random(7), lambda: f"id{next(numbers)}"
        )
        fields: dict[str, Any] = {"id": "d-1", "tenant": "acme", "name": "pager", "url": "https://example.com/"}
        stores.access.put_destination(ports.Destination(**fields | destination))

    def _wake(self) -> None:
        self.woken += 1

    def commit(self, *incidents: model.Incident) -> None:
        """What the host does with revisions."""
        self.checkpoint.commit(ports.Commit(position="1", incidents=list(incidents)))

    def messages(self) -> list[ports.Message]:
        """The outbox for incident i-0001."""
        return self.stores.outbox.messages("acme", "i-0001")

    def hop(self, hop: str, kind: str) -> tuple[float, float]:
        """How often a hop was measured, and how many seconds it took in all."""
        count, total = (
            self.registry.get_sample_value(f"firstfault_hop_seconds_{what}", {"hop": hop, "kind": kind}) for what in ("count", "sum")
        )
        return count or 0.0, total or 0.0

    def deliveries(self) -> list[ports.Delivery]:
        """The delivery log, oldest first."""
        return self.stores.outbox.deliveries(ports.ListQuery(tenant="acme", limit=200)).items[::-1]


def settled(revision: int = 1, **changes: Any) -> model.Incident:
    """Incident i-0001 with a settled verdict that pages."""
    fault = model.FirstFault(status="settled", rank=changes.pop("rank", 3), scope=changes.pop("scope", "rank"), time=NOW_NS)
    return incident(1, **{"revision": revision, "page": True, "first_fault": fault, "severity": "critical", **changes})


def provisional(revision: int = 1) -> model.Incident:
    """The same before the verdict has settled."""
    return incident(1, revision=revision, page=True, first_fault=model.FirstFault(status="provisional", rank=3))
