"""kill -9 of the service while points stream in: what was acknowledged is there once, the incident is the same, nobody is paged twice."""

import os
import random
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue

from tests.integration.service.pager import Pager
from tests.integration.service.running import RunningService, wait_for
from tests.integration.service.stream import METRICS, Stream, attribute, describe, post

pytestmark = pytest.mark.integration

POINTS_PER_SECOND = 20_000
SHORT_ROUNDS, LONG_ROUNDS = 3, 20


def environment() -> dict[str, str]:
    """The machine's, without settings of ours."""
    return {name: value for name, value in os.environ.items() if not name.startswith("FIRSTFAULT_")}


def crash(otlp_url: str, run: str, key: str = "") -> None:
    """One of two ranks raises and ends; the other one ends well. Sent until acknowledged."""
    address, now_ns = urlsplit(otlp_url).netloc, time.time_ns()
    for rank in (0, 1):
        request = ExportLogsServiceRequest()
        described = request.resource_logs.add()
        described.resource.attributes.extend(describe(run, rank, 2, f"{run}-{rank}"))
        scope = described.scope_logs.add()
        scope.scope.attributes.extend([attribute("firstfault.batch.sender", "sdk"), attribute("firstfault.batch.seq", 1)])
        if rank == 1:
            raised = scope.log_records.add(time_unix_nano=now_ns, severity_number=21, event_name="exception")
            raised.attributes.extend(
                [
                    attribute("exception.type", "ValueError"),
                    attribute("exception.message", f"sample of {run} has no label"),
                    attribute("exception.stacktrace", f"ValueError: sample of {run} has no label"),
                ]
            )
            fatal = raised.attributes.add(key="firstfault.exception.fatal")
            fatal.value.CopyFrom(AnyValue(bool_value=True))
        ended = scope.log_records.add(time_unix_nano=now_ns + 1_000_000, severity_number=9, event_name="train.exit")
        ended.attributes.extend(
            [
                attribute("train.exit.state", "failed" if rank == 1 else "finished"),
                attribute("train.exit.code", 1 if rank == 1 else 0),
                attribute("train.exit.source", "excepthook" if rank == 1 else "atexit"),
            ]
        )
        body = request.SerializeToString()
        pause = threading.Event()
        while not post(address, "/v1/logs", body, key):
            pause.wait(0.05)


@pytest.mark.timeout(240)
def test_three_kills(tmp_path: Path) -> None:
    kill_rounds(tmp_path, SHORT_ROUNDS, seed=1)


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_twenty_kills(tmp_path: Path) -> None:
    kill_rounds(tmp_path, LONG_ROUNDS, seed=2)


def kill_rounds(folder: Path, rounds: int, seed: int) -> None:
    """Each round: a run crashes at one random moment, the service is killed at another."""
    random_moment = random.Random(seed)
    with Pager() as pager, RunningService(folder, environment()) as service:
        made = service.client.post("/v1/destinations", json={"name": "pager", "url": pager.url, "allow_private": True})
        assert made.status_code == 201, made.text
        stream = Stream(service.otlp_url, "streaming", ranks=16, points_per_second=POINTS_PER_SECOND)
        before: dict[str, str] = {}
        crashes: list[threading.Timer] = []
        try:
            for number in range(rounds):
                run = f"crashed-{number}"
                timer = threading.Timer(random_moment.uniform(0, 5), crash, (service.otlp_url, run))
                timer.start()
                crashes.append(timer)
                threading.Event().wait(random_moment.uniform(1, 7))
                before |= {item["run"]["id"]: item["id"] for item in service.items("/v1/incidents")}
                service.kill()
                service.start()
                after = {item["run"]["id"]: item["id"] for item in service.items("/v1/incidents")}
                assert {run: after.get(run) for run in before} == before, "an incident is gone or has another id after the kill"
        finally:
            for timer in crashes:
                timer.join()
            stream.stop()
        assert stream.repeated, "no request met a dead service: the kills hit nothing"
        marks = stream.marks()
        wait_for(lambda: len(service.items("/v1/events", q="event:app.mark")) >= len(marks), 60, "events of all acknowledged records")
        wait_for(lambda: stored_points(service) >= stream.acknowledged_points(), 60, "rollups of all acknowledged points")
        wait_for(lambda: len(opened(pager)) >= rounds, 60, "a page for each crashed run")
        assert sorted(item["body"] for item in service.items("/v1/events", q="event:app.mark")) == sorted(marks)
        assert stored_points(service) == stream.acknowledged_points()
        incidents = service.items("/v1/incidents")
        assert sorted(item["run"]["id"] for item in incidents) == sorted(f"crashed-{number}" for number in range(rounds))
        assert {item["first_fault"]["rank"] for item in incidents} == {1}
        assert sorted(opened(pager).values()) == sorted(item["id"] for item in incidents), "one opening message an incident"
        assert service.client.get("/readyz").status_code == 200


def stored_points(service: RunningService) -> int:
    """Points of the streaming run by its rollups."""
    total = 0
    for metric in ("train.step", *METRICS):
        answer = service.client.get("/v1/runs/streaming/ranks", params={"metric": metric})
        if answer.status_code != 200:
            return -1
        total += sum(item["figures"]["count"] for item in answer.json()["items"] if item.get("figures"))
    return total


def opened(pager: Pager) -> dict[str, str]:
    """webhook-id -> incident id of the opening messages; a repeated try carries the id of the first."""
    return {webhook: body["id"] for webhook, body in list(pager.messages) if body["type"] == "incident.opened"}
