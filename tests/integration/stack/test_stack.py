"""The distributed service as it is deployed: the fault jobs become the same incidents, and no killed process costs anything.

One file, since one worker must run it from top to bottom: a process that one test kills would disturb another test.
"""

import re
import secrets
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.jobs import NumpyJob
from tests.faults.offline import compare
from tests.faults.scenario import play
from tests.faults.service import Pages, Service
from tests.faults.table import CASES, Case
from tests.integration.service.pager import Pager
from tests.integration.service.running import wait_for
from tests.integration.service.stream import METRICS, Stream
from tests.integration.service.test_kill import crash, opened
from tests.integration.stack.deployed import Deployed

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

POINTS_PER_SECOND = 2_000
"""Beside the servers two cores have little left; the bench measures what they can."""
VICTIMS = ("ingest", "kafka", "taskmanager", "jobmanager", "writer", "elasticsearch", "clickhouse", "alerter", "api")
BACK_WITHIN_S = 150.0
ROUND = secrets.token_hex(3)
"""Marks the runs of this session: a stack that stays up knows those of others."""


@pytest.fixture(scope="module")
def service(stack: Deployed) -> Iterator[Service]:
    """The stack as the fault jobs know a service."""
    pages = Pages()
    made = Service(None, stack.layout.at("api"), stack.layout.at("otlp_http"), stack.layout.folder / "log" / "api.log", pages)
    made.add_destination()
    yield made
    made.close()
    pages.close()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_fault_becomes_the_same_incident(case: Case, service: Service, tmp_path: Path) -> None:
    run = f"stack-{ROUND}-{re.sub('[^a-z]+', '-', case.name.lower())}"
    incidents = play(case, NumpyJob, service, tmp_path, run=run)
    attempts = [
        [tmp_path / f"attempt-{number}" / f"rank-{rank}.err" for rank in range(case.ranks)] for number in range(1, len(case.attempts) + 1)
    ]
    assert compare(incidents, attempts) == sum(1 + one.recurrences for one in case.expected if one.exception)


@pytest.fixture(scope="module")
def pager(stack: Deployed) -> Iterator[Pager]:
    with Pager() as receiver:
        made = stack.client.post("/v1/destinations", json={"name": f"pager-{ROUND}", "url": receiver.url, "allow_private": True})
        assert made.status_code == 201, made.text
        yield receiver


@pytest.fixture(scope="module")
def stream(stack: Deployed) -> Iterator[Stream]:
    """Points and marked records that go on over all the kills."""
    sending = Stream(stack.otlp_url, f"streaming-{ROUND}", ranks=8, points_per_second=POINTS_PER_SECOND, threads=2)
    yield sending
    sending.stop()


@pytest.mark.parametrize("victim", VICTIMS)
def test_a_killed_process_costs_nothing(victim: str, stack: Deployed, pager: Pager, stream: Stream) -> None:
    before, after = f"before-{victim}-{ROUND}", f"after-{victim}-{ROUND}"
    crash(stack.otlp_url, before)
    stack.kill(victim)
    crashing = threading.Thread(target=crash, args=(stack.otlp_url, after))
    crashing.start()
    crashing.join(BACK_WITHIN_S)
    assert not crashing.is_alive(), "nothing is acknowledged"
    for run in (before, after):
        wait_for(lambda run=run: bool(stack.items("/v1/incidents", q=f"run:{run}")), BACK_WITHIN_S, f"the incident of {run}")  # type: ignore[misc]
        wait_for(lambda run=run: run in paged(pager), BACK_WITHIN_S, f"the page of {run}")  # type: ignore[misc]
    wait_for(stack.ready, BACK_WITHIN_S, "every service is ready again")


def test_nothing_was_lost_or_told_twice(stack: Deployed, pager: Pager, stream: Stream) -> None:
    stream.stop()
    marks = stream.marks()
    search = f'event:app.mark run:"{stream.processes[0].run}"'
    wait_for(lambda: len(stack.items("/v1/events", q=search)) >= len(marks), BACK_WITHIN_S, "events of all acknowledged records")
    wait_for(lambda: stored_points(stack, stream) >= stream.acknowledged_points(), BACK_WITHIN_S, "rollups of all acknowledged points")
    assert sorted(item["body"] for item in stack.items("/v1/events", q=search)) == sorted(marks)
    assert stored_points(stack, stream) == stream.acknowledged_points()
    crashed = sorted(f"{when}-{victim}-{ROUND}" for when in ("before", "after") for victim in VICTIMS)
    incidents = [item for item in stack.items("/v1/incidents") if item["run"]["id"].endswith(ROUND)]
    assert sorted(item["run"]["id"] for item in incidents) == crashed, "one incident a run, and none for a silence that was none"
    assert {item["first_fault"]["rank"] for item in incidents} == {1}
    told = [body["run"]["id"] for webhook, body in dict(reversed(pager.messages)).items() if body["type"] == "incident.opened"]
    assert sorted(run for run in told if run.endswith(ROUND)) == crashed, "one opening message an incident"
    assert len(opened(pager)) == len(set(opened(pager).values()))


def paged(pager: Pager) -> set[str]:
    """Runs with an opening message."""
    return {body["run"]["id"] for _, body in list(pager.messages) if body["type"] == "incident.opened"}


def stored_points(stack: Deployed, stream: Stream) -> int:
    """Points of the stream by its rollups; -1 while they cannot be asked for."""
    total = 0
    for metric in ("train.step", *METRICS):
        answer = stack.client.get(f"/v1/runs/{stream.processes[0].run}/ranks", params={"metric": metric})
        if answer.status_code != 200:
            return -1
        total += sum(item["figures"]["count"] for item in answer.json()["items"] if item.get("figures"))
    return total
