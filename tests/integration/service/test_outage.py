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
    """A job of two ranks trains through an outage of the service and finishes."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("FIRSTFAULT_")}
    with RunningService(folder / "data", environ) as service:
        plan = Plan(steps=int((seconds + AFTER_S + 15) / 0.1), step_s=0.1)
        command = [sys.executable, "-m", "firstfault_server.demo.job", *plan.arguments()]
        ranks = Ranks(command, 2, folder / "job", environ | {"FIRSTFAULT_ENDPOINT": service.otlp_url, "FIRSTFAULT_RUN_ID": "through"})
        try:
            wait_for(lambda: steps_of(service) == {0, 1}, 60, "both ranks report steps")
            service.kill()
            threading.Event().wait(seconds)
            service.start()
            assert ranks.codes() == [None, None], "the job ended during the outage"
            threading.Event().wait(AFTER_S)
            assert service.items("/v1/incidents") == []
            states = {item["rank"]: item["state"] for item in service.items("/v1/runs/through/ranks")}
            assert states == {0: "running", 1: "running"}
            assert ranks.watch(timeout_s=60) == [0, 0]
            wait_for(lambda: service.client.get("/v1/runs/through").json()["state"] == "finished", 30, "the run is finished")
            wait_for(lambda: losses(service) == [plan.steps, plan.steps], 30, "losses of every step, those of the outage too")
            assert service.items("/v1/incidents") == []
        finally:
            ranks.stop()


def steps_of(service: RunningService) -> set[int]:
    """Ranks of the run that have logged a step."""
    answer = service.client.get("/v1/runs/through/ranks")
    return {item["rank"] for item in answer.json()["items"] if item["step"]} if answer.status_code == 200 else set()


def losses(service: RunningService) -> list[int]:
    """How many losses are stored, by rank."""
    return [item["figures"]["count"] for item in service.items("/v1/runs/through/ranks", metric="loss")]
