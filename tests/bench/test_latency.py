"""How soon a failure of a real two-process job is known: an exception, a killed rank, a rank that hangs; and its page.

Bounds (architecture.md): exception to queryable 2 s, page at settling, SIGKILL named 10 s, hang suspected within its budget + 5 s. A
busy machine is allowed five times as much.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from firstfault_server.core.thresholds import Thresholds
from firstfault_server.demo.launcher import Ranks
from firstfault_server.demo.plan import Fault, Plan
from tests.integration.service.pager import Pager
from tests.integration.service.running import RunningService, wait_for

pytestmark = [pytest.mark.bench, pytest.mark.timeout(300)]

EXCEPTION_S, KILLED_S, HANG_AFTER_BUDGET_S, PAGE_AFTER_SETTLING_S = 2.0, 10.0, 5.0, 1.0
FIVE_FOLD = 5
Environ = dict[str, str]
Report = Callable[[str, object], None]


@pytest.fixture(scope="module")
def environ() -> Environ:
    """The machine's environment without settings of ours."""
    return {name: value for name, value in os.environ.items() if not name.startswith("FIRSTFAULT_")}


@pytest.fixture(scope="module")
def pager() -> Iterator[Pager]:
    """A receiver of pages."""
    with Pager() as receiver:
        yield receiver


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, environ: Environ, pager: Pager) -> Iterator[RunningService]:
    """One service for all jobs."""
    with RunningService(tmp_path_factory.mktemp("latency"), environ) as running:
        made = running.client.post("/v1/destinations", json={"name": "pager", "url": pager.url, "allow_private": True})
        assert made.status_code == 201, made.text
        yield running


def start(service: RunningService, environ: Environ, folder: Path, run: str, plan: Plan) -> Ranks:
    """Start the job of two ranks."""
    command = [sys.executable, "-m", "firstfault_server.demo.job", *plan.arguments()]
    return Ranks(command, 2, folder, environ | {"FIRSTFAULT_ENDPOINT": service.otlp_url, "FIRSTFAULT_RUN_ID": run})


def trains(service: RunningService, run: str) -> bool:
    """Both ranks have reported steps."""
    answer = service.client.get(f"/v1/runs/{run}/ranks")
    return answer.status_code == 200 and [bool(item["step"]) for item in answer.json()["items"]] == [True, True]


def incident_of(service: RunningService, run: str, holds: Callable[[dict[str, Any]], bool], within_s: float) -> dict[str, Any]:
    """The run's incident once it is as wanted."""
    found: list[dict[str, Any]] = []
    deadline, pause = time.monotonic() + within_s, threading.Event()
    while not (found and holds(found[0])):
        assert time.monotonic() < deadline, f"not within {within_s:g} s: {found}"
        pause.wait(0.02)
        found = service.items("/v1/incidents", q=f"run:{run}")
    return found[0]


def stopped(service: RunningService, ranks: Ranks, run: str) -> None:
    """End the job."""
    ranks.signal(signal.SIGCONT)
    ranks.stop()
    wait_for(lambda: service.client.get(f"/v1/runs/{run}").json()["state"] != "running", 60, "the end of the run")


def test_exception(service: RunningService, environ: Environ, pager: Pager, tmp_path: Path, record_property: Report) -> None:
    ranks = start(service, environ, tmp_path, "raises", Plan(fault=Fault.EXCEPTION, fault_step=40))
    try:
        seen = incident_of(service, "raises", lambda item: item["first_fault"]["rank"] == 1, 120)
        queryable_at = time.time()
        raised_at = min(path.stat().st_mtime for path in [ranks.errors(1)])
        incident_of(service, "raises", lambda item: item["first_fault"]["status"] == "settled", 60)
        settled_at = time.time()
        wait_for(lambda: any(body["id"] == seen["id"] for _, body in pager.messages), 60, "the page")
        paged_at = time.time()
    finally:
        stopped(service, ranks, "raises")
    print(f"\nexception to queryable {queryable_at - raised_at:.2f} s, settled to paged {paged_at - settled_at:.2f} s")
    record_property("exception_to_queryable_s", queryable_at - raised_at)
    assert queryable_at - raised_at < EXCEPTION_S * FIVE_FOLD
    assert paged_at - settled_at < PAGE_AFTER_SETTLING_S * FIVE_FOLD


def test_killed_rank(service: RunningService, environ: Environ, tmp_path: Path, record_property: Report) -> None:
    ranks = start(service, environ, tmp_path, "killed", Plan(steps=100_000))
    try:
        wait_for(lambda: trains(service, "killed"), 120, "both ranks report steps")
        ranks.processes[1].kill()
        began = time.monotonic()
        incident_of(service, "killed", lambda item: item["first_fault"]["rank"] == 1, KILLED_S * FIVE_FOLD)
        took = time.monotonic() - began
    finally:
        stopped(service, ranks, "killed")
    print(f"\nSIGKILL to named {took:.2f} s")
    record_property("sigkill_to_named_s", took)
    assert took < KILLED_S * FIVE_FOLD


def test_hanging_rank(service: RunningService, environ: Environ, tmp_path: Path, record_property: Report) -> None:
    budget_s = Thresholds().pause_floor_s
    ranks = start(service, environ, tmp_path, "hangs", Plan(steps=100_000))
    try:
        wait_for(lambda: trains(service, "hangs"), 120, "both ranks report steps")
        ranks.processes[1].send_signal(signal.SIGSTOP)
        began = time.monotonic()
        seen = incident_of(service, "hangs", lambda item: item["symptom"] == "hang", budget_s + HANG_AFTER_BUDGET_S * FIVE_FOLD)
        took = time.monotonic() - began
        assert (seen["severity"], seen["page"]) == ("warning", False), "only suspected"
    finally:
        stopped(service, ranks, "hangs")
    print(f"\nstop of a rank to suspected hang {took:.2f} s, budget {budget_s:g} s")
    record_property("hang_to_suspected_s", took)
    assert took < budget_s + HANG_AFTER_BUDGET_S * FIVE_FOLD
