"""The service is away for longer than the silence budget: no rank looks silent for it, and nothing the ranks said is missing."""

import json
import os
import sys
import threading
import time
from datetime import datetime
from pathlib import Path

import pytest

from firstfault_server.demo.launcher import Ranks
from firstfault_server.demo.plan import Plan
from tests.integration.service.running import RunningService, wait_for

pytestmark = pytest.mark.integration

JUDGED_S = 3.0
"""Detection has gone on for so long after the outage: who looks silent then was given no time to come back."""


@pytest.mark.timeout(120)
def test_short_outage(tmp_path: Path) -> None:
    """Longer than a rank without heartbeats, one every two seconds, may be silent here."""
    outage(tmp_path, 10, silence_s=6)


@pytest.mark.soak
@pytest.mark.timeout(300)
def test_outage_of_a_minute(tmp_path: Path) -> None:
    outage(tmp_path, 60)


def outage(folder: Path, seconds: float, **thresholds: float) -> None:
    """A job of two ranks trains through an outage of the service, and is stopped at the end."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("FIRSTFAULT_")}
    with RunningService(folder / "data", environ | {"FIRSTFAULT_THRESHOLDS": json.dumps(thresholds)}) as service:
        plan = Plan(steps=100_000, step_s=0.1)
        command = [sys.executable, "-m", "firstfault_server.demo.job", *plan.arguments()]
        ranks = Ranks(command, 2, folder / "job", environ | {"FIRSTFAULT_ENDPOINT": service.otlp_url, "FIRSTFAULT_RUN_ID": "through"})
        try:
            wait_for(lambda: min(steps_of(service).values(), default=0) > 0, 60, "both ranks report steps")
            service.kill()
            # The length of the outage is what is tested; nothing in it could be waited for.
            threading.Event().wait(seconds)
            back_s = time.time()
            service.start()
            assert ranks.codes() == [None, None], "the job ended during the outage"
            wait_for(lambda: len(seen_since(service, back_s)) == 2, 60, "both ranks are heard of again")
            wait_for(lambda: reached_s(service) > back_s + JUDGED_S, 60, "detection has gone on")
            assert service.items("/v1/incidents") == []
            states = {item["rank"]: item["state"] for item in service.items("/v1/runs/through/ranks")}
            assert states == {0: "running", 1: "running"}
            wait_for(lambda: min(steps_of(service).values()) > seconds / 2 / plan.step_s, 60, "steps of the outage")
            ranks.stop()
            wait_for(lambda: service.client.get("/v1/runs/through").json()["state"] != "running", 60, "the end of the run")
            wait_for(lambda: losses(service) == list(steps_of(service).values()), 60, "one loss for every step, also those of the outage")
            assert service.items("/v1/incidents") == [], "a stop by somebody is no failure"
        finally:
            ranks.stop()


def seen_since(service: RunningService, since_s: float) -> set[int]:
    """Ranks that were heard of later than a time."""
    items = service.items("/v1/runs/through/ranks")
    return {item["rank"] for item in items if datetime.fromisoformat(item["last_seen"]).timestamp() > since_s}


def reached_s(service: RunningService) -> float:
    """Receive time that detection has reached."""
    lines = service.client.get("/metrics").text.splitlines()
    return max((float(line.split()[-1]) for line in lines if line.startswith("firstfault_detect_reached_timestamp_seconds")), default=0.0)


def steps_of(service: RunningService) -> dict[int, int]:
    """Rank -> number of steps it has reported."""
    answer = service.client.get("/v1/runs/through/ranks")
    found = answer.json()["items"] if answer.status_code == 200 else []
    return {item["rank"]: item["step"] + 1 for item in found if item["step"] is not None}


def losses(service: RunningService) -> list[int]:
    """How many losses are stored, by rank."""
    return [item["figures"]["count"] for item in service.items("/v1/runs/through/ranks", metric="loss")]
