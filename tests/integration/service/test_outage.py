"""The service is away for longer than the silence budget: no rank looks silent for it, and nothing the ranks said is missing."""

import os
import sys
import threading
from pathlib import Path

import pytest

from firstfault_server.demo.launcher import Ranks
from firstfault_server.demo.plan import Plan
from tests.integration.service.running import RunningService, wait_for

pytestmark = pytest.mark.integration

AFTER_S = 12.0
"""How long after the outage a false incident is waited for: twice the time in which heartbeats come back."""


@pytest.mark.timeout(180)
def test_short_outage(tmp_path: Path) -> None:
    """20 s: more than the 15 s after which a rank without heartbeats is silent."""
    outage(tmp_path, 20)


@pytest.mark.soak
@pytest.mark.timeout(300)
def test_outage_of_a_minute(tmp_path: Path) -> None:
    outage(tmp_path, 60)


def outage(folder: Path, seconds: float) -> None:
    """A job of two ranks trains through an outage of the service, and is stopped at the end."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("FIRSTFAULT_")}
    with RunningService(folder / "data", environ) as service:
        plan = Plan(steps=100_000, step_s=0.1)
        command = [sys.executable, "-m", "firstfault_server.demo.job", *plan.arguments()]
        ranks = Ranks(command, 2, folder / "job", environ | {"FIRSTFAULT_ENDPOINT": service.otlp_url, "FIRSTFAULT_RUN_ID": "through"})
        try:
            wait_for(lambda: min(steps_of(service).values(), default=0) > 0, 60, "both ranks report steps")
            service.kill()
            threading.Event().wait(seconds)
            service.start()
            assert ranks.codes() == [None, None], "the job ended during the outage"
            threading.Event().wait(AFTER_S)
            assert service.items("/v1/incidents") == []
            states = {item["rank"]: item["state"] for item in service.items("/v1/runs/through/ranks")}
            assert states == {0: "running", 1: "running"}
            wait_for(lambda: min(steps_of(service).values()) > seconds / 2 / plan.step_s, 30, "steps of the outage")
            ranks.stop()
            wait_for(lambda: service.client.get("/v1/runs/through").json()["state"] != "running", 30, "the end of the run")
            wait_for(lambda: losses(service) == list(steps_of(service).values()), 30, "one loss for every step, also those of the outage")
            assert service.items("/v1/incidents") == [], "a stop by somebody is no failure"
        finally:
            ranks.stop()


def steps_of(service: RunningService) -> dict[int, int]:
    """Rank -> number of steps it has reported."""
    answer = service.client.get("/v1/runs/through/ranks")
    found = answer.json()["items"] if answer.status_code == 200 else []
    return {item["rank"]: item["step"] + 1 for item in found if item["step"] is not None}


def losses(service: RunningService) -> list[int]:
    """How many losses are stored, by rank."""
    return [item["figures"]["count"] for item in service.items("/v1/runs/through/ranks", metric="loss")]
