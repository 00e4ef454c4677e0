"""A stand for API tests: the application over stores in memory, with two tenants that hold the same kinds of things."""

from collections.abc import Mapping
from functools import cache
from typing import Any
from unittest.mock import Mock

import structlog
from fastapi import FastAPI
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient
from prometheus_client import CollectorRegistry

from firstfault_server import ports
from firstfault_server.adapters import memory
from firstfault_server.api.app import attach, create_app
from firstfault_server.api.changes import Changes
from firstfault_server.api.services import Services
from firstfault_server.core import access, model
from tests.contract.records import NOW_NS, FixedClock, delivery, event, incident, message, rollup, run

KEYS: Mapping[str, tuple[str, list[ports.Permission]]] = {
    "ffk_acme-admin": ("acme", ["admin"]),
    "ffk_acme-writer": ("acme", ["read", "write"]),
    "ffk_acme-reader": ("acme", ["read"]),
    "ffk_acme-ingest": ("acme", ["ingest"]),
    "ffk_other-admin": ("other", ["admin"]),
}


@cache
def _application() -> FastAPI:
    """One application for all tests of a process: building its routes takes longer than most tests."""
    return create_app(_unattached())


def _unattached() -> Services:
    return Mock(registry=CollectorRegistry(), allowed_origins=frozenset(), spec_set=["registry", "allowed_origins"])


class Stand:
    """Stores, clock, application, and what the alerter would have been told."""

    def __init__(self, keyed: bool = True) -> None:
        self.clock = FixedClock()
        self.stores = memory.open_stores(self.clock)
        self.changed: list[tuple[model.Incident, model.Triage]] = []
        self.changes = Changes()
        self.problems: dict[str, str] = {}
        self.degraded: dict[str, str] = {}
        self.ids = iter(f"id{number:04}" for number in range(10_000))
        self.services = Services(
            incidents=self.stores.incidents,
            context=self.stores.context,
            triage=self.stores.triage,
            silences=self.stores.silences,
            access=self.stores.access,
            outbox=self.stores.outbox,
            aggregates=self.stores.aggregates,
            clock=self.clock,
            registry=CollectorRegistry(),
            log=structlog.wrap_logger(structlog.PrintLogger(), wrapper_class=structlog.make_filtering_bound_logger(50)),
            changes=self.changes,
            cursor_secret=b"cursor secret of the tests",
            triage_changed=lambda changed, triage: self.changed.append((changed, triage)),
            test_destination=self._test,
            readiness=lambda: self.problems,
            degraded=lambda: self.degraded,
            url_problem=lambda url, _private: "" if url.startswith("http") else "the URL must start with http",
            base_url="http://api.example",
            new_secret=lambda: bytes(range(32)),
            new_id=lambda: next(self.ids),
        )
        self.app = _application()
        attach(self.app, self.services)
        if keyed:
            for text, (tenant, scopes) in KEYS.items():
                stored = ports.AccessKey(
                    id=text, tenant=tenant, name=text, secret_hash=access.secret_hash(text), scopes=scopes, created_ns=NOW_NS
                )
                self.stores.access.put_key(stored)

    async def _test(self, destination: ports.Destination) -> ports.Delivery:
        return delivery(1, message(0, id="test.1", tenant=destination.tenant, destination=destination.id, incident="", kind="test"))

    def client(self, key: str = "", host: str = "127.0.0.1") -> TestClient:
        """A client that presents a key."""
        headers = {"authorization": f"Bearer {key}"} if key else {}
        return TestClient(self.app, base_url="http://localhost", headers=headers, client=(host, 50_000), raise_server_exceptions=False)

    def fill(self, tenant: str, name: str) -> None:
        """One of everything for a tenant; `name` is in every id and text."""
        fault = model.FirstFault(
            status="settled", rank=1, node=f"node-{name}", time=NOW_NS, step=7,
            exception=model.ExceptionInfo(type="RuntimeError", message=f"secret of {name}", stacktrace="Traceback …"),
        )  # fmt: skip
        evidence = [model.Evidence(id=f"event-{name}", kind="exception", text=f"text of {name}", rank=1, time=NOW_NS)]
        reference = model.RunRef(id=f"run-{name}", name=name, nodes=[f"node-{name}"])
        made = incident(
            1, id=f"incident-{name}", tenant=tenant, run=reference, title=f"title of {name}", page=True, first_fault=fault,
            evidence=evidence,
            fingerprint=model.Fingerprint(id="same", stack_hash="same"), ranks=[model.RankRole(rank=1, role="initiating")],
            advice=[model.Advice(text="read the trace", because="there is one")], impact=model.Impact(idle_s=float("inf")),
        )  # fmt: skip
        self.stores.incidents.write_incidents([made, incident(2, id=f"second-{name}", tenant=tenant, run=reference)])
        ranks = [model.RankStatus(rank=1, process=f"process-{name}", node=f"node-{name}")]
        self.stores.incidents.write_runs([run(1, run=f"run-{name}", tenant=tenant, name=name, ranks=ranks, nodes=[f"node-{name}"])])
        happened = event(
            1, id=f"event-{name}", tenant=tenant, run=f"run-{name}", node=f"node-{name}", process=f"process-{name}",
            exception=fault.exception, fingerprint="same", body=name, attributes={"loss": float("nan"), "list": [1, "a"]},
        )  # fmt: skip
        self.stores.context.write_events([happened])
        letter = model.DeadLetter(
            id=f"letter-{name}", tenant=tenant, received_ns=NOW_NS, reason=f"{name} does not parse", signal="logs", data=b"\xff\x00\x1b[2J"
        )
        self.stores.context.write_dead_letters([letter])
        self.stores.aggregates.write_rollups([rollup(1, tenant=tenant, run=f"run-{name}", process=f"process-{name}")])
        self.stores.access.put_destination(
            ports.Destination(id=f"destination-{name}", tenant=tenant, name=name, url="https://example.com/x", secret=f"whsec_{name}")
        )
        self.stores.triage.put_triage(
            self.stores.triage.triage(tenant, f"second-{name}"),
            ports.Audit(id=f"audit-{name}", tenant=tenant, time_ns=NOW_NS, actor=name, action="note", subject=f"second-{name}"),
        )
        self.stores.silences.put_silence(
            model.Silence(
                id=f"silence-{name}", tenant=tenant, where=f"run:run-{name}", starts_ns=NOW_NS, ends_ns=NOW_NS + 3600 * model.SECOND_NS,
                author=name, comment=f"comment of {name}", created_ns=NOW_NS,
            ),
            ports.Audit(id=f"silenced-{name}", tenant=tenant, time_ns=NOW_NS, actor=name, action="silence", subject=f"silence-{name}"),
        )  # fmt: skip
        queued = message(1, id=f"message-{name}", tenant=tenant, incident=f"incident-{name}", destination=f"destination-{name}")
        self.stores.outbox.add([queued])
        self.stores.outbox.record(queued, delivery(1, queued, error=f"error of {name}"))


def routes_of(app: FastAPI) -> list[APIRoute]:
    """Every route of an application, those of included routers too."""
    found: list[APIRoute] = []
    waiting: list[Any] = list(app.routes)
    while waiting:
        route = waiting.pop(0)
        if isinstance(route, APIRoute):
            found.append(route)
        else:
            waiting += getattr(getattr(route, "original_router", route), "routes", [])
    return found


def items(client: TestClient, path: str, **parameters: Any) -> list[dict[str, Any]]:
    """The items of a list; fails when it is not answered."""
    response = client.get(path, params=parameters)
    assert response.status_code == 200, response.text
    found: list[dict[str, Any]] = response.json()["items"]
    return found
