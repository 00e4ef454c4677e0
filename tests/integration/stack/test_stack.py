"""The distributed service as it is deployed: the fault jobs become the same incidents, and no killed process costs anything.

One file, since one worker must run it: a process that one test kills would disturb another test.
"""

import json
import os
import re
import secrets
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest

from deploy.native.stack.ending import MARK
from deploy.native.stack.supervision import PID
from firstfault_server.cli import commands
from firstfault_server.cli.doctor import RUN
from tests.bench.machine import Meanwhile
from tests.faults.jobs import NumpyJob
from tests.faults.offline import compare
from tests.faults.scenario import play
from tests.faults.service import Pages, Service
from tests.faults.table import CASES, Case
from tests.integration.service.pager import Pager
from tests.integration.service.running import wait_for
from tests.integration.service.stream import METRICS, Stream
from tests.integration.service.test_kill import crash
from tests.integration.stack.deployed import Deployed
from tests.integration.stack.flooding import FLOOD_DELAY_S, flood, keys, waits

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

POINTS_PER_SECOND = 2_000
"""Beside the servers two cores have little left; the bench measures what they can."""
VICTIMS = ("ingest", "kafka", "taskmanager", "jobmanager", "writer", "elasticsearch", "clickhouse", "alerter", "api")
RECEIVING = ("ingest", "kafka")
"""Without these nothing is acknowledged."""
TELLING = ("alerter", "elasticsearch")
"""Who tells, and where it is kept who was told: a kill of these between the two has somebody told again."""
BACK_WITHIN_S = 150.0
READINESS_S = 30.0
FAILURES = 6
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


def test_the_doctor_follows_one_event_through_every_hop(
    stack: Deployed, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in {**stack.layout.settings(), "FIRSTFAULT_ENDPOINT": stack.otlp_url, "HOME": "/nonexistent"}.items():
        monkeypatch.setenv(name, value)
    status = commands()["doctor"].main(["--within", f"{BACK_WITHIN_S:g}", "-o", "json"])
    hops = json.loads(capsys.readouterr().out)["items"]
    assert [hop["hop"] for hop in hops] == ["api", "ready", "ingest", "log", "detection", "query"], hops
    assert all(hop["ok"] for hop in hops), hops
    assert status == 0
    # The event is what the doctor says it is, and a look at the deployment is no incident.
    identity = hops[-1]["detail"].removeprefix("event ")
    (event,) = stack.items("/v1/events", q=f"event:firstfault.doctor run:{RUN}")[:1]
    assert event["id"] == identity
    assert stack.items("/v1/incidents", q=f"run:{RUN}") == []


@pytest.mark.skipif(MARK in os.environ, reason="a stack that was there before has no quota that a test could reach")
def test_a_tenant_that_floods_delays_nobody_else(stack: Deployed) -> None:
    with keys(stack, f"flooding-{ROUND}", f"other-{ROUND}") as (flooding, other):
        alone = waits(stack, f"alone-{ROUND}", FAILURES, other)
        meanwhile = Meanwhile(stack=supervisor(stack))
        with flood(stack, flooding) as sent:
            flooded = waits(stack, f"flooded-{ROUND}", FAILURES, other)
    assert sent[True], "nothing was taken: a quota is no ban"
    assert sent[False] > sent[True], "nothing was refused: that was no flood"
    assert (flooded[-1] - alone[-1]) * meanwhile.left() < FLOOD_DELAY_S


@pytest.mark.timeout(1500)
def test_killed_processes_cost_nothing(stack: Deployed) -> None:
    kills(stack, 1)


@pytest.mark.soak
@pytest.mark.timeout(7000)
def test_processes_killed_again_and_again_cost_nothing(stack: Deployed) -> None:
    kills(stack, 5)


def kills(stack: Deployed, times: int) -> None:
    """One after the other, while points stream in: nothing acknowledged is lost, nothing is stored or told twice, nobody looks silent."""
    with Pager() as pager:
        made = stack.client.post("/v1/destinations", json={"name": f"pager-{ROUND}", "url": pager.url, "allow_private": True})
        assert made.status_code == 201, made.text
        job = running_job(stack)
        stream = Stream(stack.otlp_url, f"streaming-{ROUND}", ranks=8, points_per_second=POINTS_PER_SECOND, threads=2)
        rounds = [(number, victim) for number in range(times) for victim in VICTIMS]
        try:
            for number, victim in rounds:
                repeated = stream.repeated
                kill(stack, pager, victim, [f"{when}-{victim}-{number}-{ROUND}" for when in ("before", "after")])
                # A JobManager that forgot its job would be given it again as another one, from a checkpoint.
                assert running_job(stack) == job, f"{victim} was killed, and detection went on as another job"
                # While Kafka is away requests may also just wait until it is back.
                assert victim != "ingest" or stream.repeated > repeated, "no request met a dead ingest: the kill hit nothing"
        finally:
            stream.stop()
        crashed = sorted(f"{when}-{victim}-{number}-{ROUND}" for when in ("before", "after") for number, victim in rounds)
        nothing_lost(stack, stream)
        told_once(stack, pager, crashed)
        stack.client.delete(f"/v1/destinations/{made.json()['id']}")


def kill(stack: Deployed, pager: Pager, victim: str, runs: Sequence[str]) -> None:
    """One run fails just before, one just after; both are told of, and the victim comes back."""
    before, after = runs
    crash(stack.otlp_url, before)
    stack.kill(victim)
    crashing = threading.Thread(target=crash, args=(stack.otlp_url, after))
    crashing.start()
    if victim in RECEIVING:
        wait_for(lambda: not stack.ready("ingest"), READINESS_S, f"ingest is not ready without {victim}")
    crashing.join(BACK_WITHIN_S)
    assert not crashing.is_alive(), f"{victim} was killed, and nothing is acknowledged"
    for run in runs:
        wait_for(partial(known, stack, run), BACK_WITHIN_S, f"the incident of {run}")
        wait_for(partial(paged, pager, run), BACK_WITHIN_S, f"the page of {run}")
    wait_for(stack.ready, BACK_WITHIN_S, f"every service is ready again after {victim} was killed")


def nothing_lost(stack: Deployed, stream: Stream) -> None:
    """Everything that was acknowledged is stored once."""
    marks = stream.marks()
    search = f'event:app.mark run:"{stream.processes[0].run}"'
    wait_for(lambda: len(stack.items("/v1/events", q=search)) >= len(marks), BACK_WITHIN_S, "events of all acknowledged records")
    wait_for(lambda: stored_points(stack, stream) >= stream.acknowledged_points(), BACK_WITHIN_S, "rollups of all acknowledged points")
    assert sorted(item["body"] for item in stack.items("/v1/events", q=search)) == sorted(marks)
    assert stored_points(stack, stream) == stream.acknowledged_points()


def told_once(stack: Deployed, pager: Pager, crashed: Sequence[str]) -> None:
    """One incident and one opening message for each run that failed, and none for a silence that was none.

    A message may come a second time, known by its id, around a kill of who tells.
    """
    incidents = [item for item in stack.items("/v1/incidents") if item["run"]["id"].endswith(ROUND)]
    assert sorted(item["run"]["id"] for item in incidents) == crashed
    assert {item["first_fault"]["rank"] for item in incidents} == {1}
    openings = {webhook: body["run"]["id"] for webhook, body in pager.messages if body["type"] == "incident.opened"}
    assert sorted(run for run in openings.values() if run.endswith(ROUND)) == crashed
    told = Counter((webhook, body["run"]["id"]) for webhook, body in pager.messages)
    again = {message: times for message, times in told.items() if times > 1}
    assert not again or max(again.values()) == 2, again
    assert all(any(f"-{each}-" in run for each in TELLING) for _, run in again), again


def supervisor(stack: Deployed) -> int:
    """Process that all of the stack descends from."""
    return int((stack.layout.folder / PID).read_text(encoding="ascii"))


def running_job(stack: Deployed) -> str:
    """Id of the one job that runs."""
    found: list[str] = []

    def runs() -> bool:
        found[:] = stack.jobs()
        return bool(found)

    wait_for(runs, BACK_WITHIN_S, "a job of which every task runs")
    (job,) = found
    return job


def known(stack: Deployed, run: str) -> bool:
    """Whether a run has an incident."""
    return bool(stack.items("/v1/incidents", q=f"run:{run}"))


def paged(pager: Pager, run: str) -> bool:
    """Whether somebody was told of a run."""
    return any(body["type"] == "incident.opened" and body["run"]["id"] == run for _, body in list(pager.messages))


def stored_points(stack: Deployed, stream: Stream) -> int:
    """Points of the stream by its rollups; -1 while they cannot be asked for."""
    total = 0
    for metric in ("train.step", *METRICS):
        answer = stack.client.get(f"/v1/runs/{stream.processes[0].run}/ranks", params={"metric": metric})
        if answer.status_code != 200:
            return -1
        total += sum(item["figures"]["count"] for item in answer.json()["items"] if item.get("figures"))
    return total
