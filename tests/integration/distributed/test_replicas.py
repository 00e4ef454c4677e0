"""Two processes of a service share its work; one that is ended in order under load leaves nothing behind, lost or done twice."""

import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import pytest

from firstfault_server.adapters.kafka import TOPIC, KafkaLog, RecordSender
from firstfault_server.adapters.kafka.topics import topic_name
from firstfault_server.core import model
from firstfault_server.wire.outputs import OutputRecord
from tests.contract.logs import everything
from tests.contract.records import event, incident, rollup
from tests.integration.cli.sending import send_crash
from tests.integration.distributed.installation import wait_for
from tests.integration.distributed.paging import paging
from tests.integration.distributed.services import Installation, Service

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

KINDS = ("writer", "alerter", "ingest")
REPLICAS = 2
PAGES_EVERY = 5
"""Events an incident."""
PAUSE_S = 0.02
CAUGHT_UP_S = 300.0
"""The load goes on for longer on a busy machine, and then so does what is left of it."""
SHARE = 10
"""Of each kind of work that every process has done, and the rest does after one has ended."""


class Load:
    """What detection writes and what training processes send, one after the other, until it is enough."""

    def __init__(self, installation: Installation, receivers: list[str]) -> None:
        self._installation, self._receivers = installation, receivers
        self._enough = threading.Event()
        self.detected = 0
        self.acknowledged: list[str] = []
        self.refused: list[str] = []

    @contextmanager
    def going(self) -> Iterator[None]:
        """Under load."""
        with ThreadPoolExecutor() as at_work:
            started = [at_work.submit(self._detect), *(at_work.submit(self._send, number) for number in range(len(self._receivers)))]
            try:
                yield
            finally:
                self._enough.set()
            for each in started:
                each.result()

    def incidents(self) -> list[str]:
        """Ids of those that page."""
        return [f"i-{number}" for number in range(0, self.detected, PAGES_EVERY)]

    def _detect(self) -> None:
        sender = RecordSender(self._installation.kafka, self._installation.prefix)
        while not self._enough.wait(PAUSE_S):
            number, at = self.detected, time.time_ns()
            run = f"r-{number}"
            records: list[OutputRecord] = [
                event(number, run=run, time_ns=at, received_ns=at),
                rollup(0, run=run, process=f"p-{number}", position=f"{number:06}", window_ns=at),
            ]
            if number % PAGES_EVERY == 0:
                fault = model.FirstFault(status="settled", rank=0, time=at)
                told = {"page": True, "severity": "critical", "first_fault": fault, "opened_at": at, "updated_at": at}
                records.append(incident(number, id=f"i-{number}", run=model.RunRef(id=run), **told))
            sender.send(records)
            self.detected += 1

    def _send(self, first: int) -> None:
        number = 0
        while not self._enough.wait(PAUSE_S):
            run = f"r-{first}-{number}"
            try:
                send_crash(self._receivers[(first + number) % len(self._receivers)], run)
            except OSError:
                # The next one is sent under a name of its own, so that none is ever sent twice.
                self.refused.append(run)
            else:
                self.acknowledged.append(run)
            number += 1


@pytest.fixture
def replicas(installation: Installation, tmp_path: Path) -> Iterator[dict[str, list[Service]]]:
    """Two processes of each service, ready."""
    folders = [tmp_path / str(number) for number in range(REPLICAS)]
    for folder in folders:
        folder.mkdir()
    wanted = [(kind, folder) for kind in KINDS for folder in folders]
    with ExitStack() as stack:
        with ThreadPoolExecutor() as at_once:
            started = list(at_once.map(lambda each: Service(each[0], installation.environ(), each[1]), wanted))
        for service in started:
            stack.enter_context(service).wait_until_ready()
        yield {kind: [service for service in started if service.kind == kind] for kind in KINDS}


def done(service: Service) -> float:
    """How much this process has done so far."""
    if service.kind == "ingest":
        return service.figure("firstfault_ingest_append_seconds_count")
    # Loops of one topic: of those with several a process may have one in which nothing happens.
    loop, topic = {"writer": ("aggregates", "rollups"), "alerter": ("incidents", "incidents")}[service.kind]
    return service.figure("firstfault_consumed_records_total", loop=loop, topic=f"firstfault.{topic}.v1")


def has_done(service: Service, least: float) -> bool:
    """Whether this process has done so much."""
    return done(service) >= least


def test_one_of_two_is_ended_under_load(installation: Installation, replicas: dict[str, list[Service]]) -> None:
    load = Load(installation, [service.url("otlp-http") for service in replicas["ingest"]])
    with paging(installation) as pager:
        with load.going():
            for kind in KINDS:
                for service in replicas[kind]:
                    wait_for(partial(has_done, service, SHARE), f"each {kind} does its share")
            wait_for(lambda: len(pager.messages) >= SHARE, "pages go out")
            for kind in KINDS:
                ended, stays = replicas[kind]
                before = done(stays)
                assert ended.stop() == 0, ended.errors()
                wait_for(partial(has_done, stays, before + SHARE), f"the other {kind} goes on")
        wait_for(lambda: installation.stored_events() >= load.detected, "all events are stored", CAUGHT_UP_S)
        wait_for(
            lambda: int(installation.ask("SELECT count() FROM {database}.rollup")) >= load.detected, "all numbers are stored", CAUGHT_UP_S
        )
        wait_for(lambda: len(pager.messages) >= len(load.incidents()), "all pages went out", CAUGHT_UP_S)
        for _, stays in replicas.values():
            stays.wait_until_ready()
    assert installation.stored_events() == load.detected
    assert int(installation.ask("SELECT count() FROM {database}.rollup")) == load.detected, "some were written again"
    assert Counter(webhook for webhook, _ in pager.messages) == Counter(f"{each}.1" for each in load.incidents())
    log = KafkaLog(installation.kafka, topic_name(installation.prefix, TOPIC))
    kept = Counter(entry.process for _, entry in everything(log) if entry.signal == "logs")
    log.close()
    assert {run: kept[f"{run}-0"] for run in load.acknowledged} == dict.fromkeys(load.acknowledged, 1)
    assert load.refused, "nobody met the one that had ended"
    assert sum(kept.values()) == len(load.acknowledged), "what was refused was taken all the same"
