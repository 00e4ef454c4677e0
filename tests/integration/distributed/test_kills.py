"""Services that are killed in the midst of their work: nothing acknowledged is lost, nothing is stored or told twice."""

import contextlib
import threading
import time
import urllib.error
from collections.abc import Iterator
from pathlib import Path

import pytest

from firstfault_server.adapters.elasticsearch import ElasticsearchStores, open_stores
from firstfault_server.adapters.kafka import TOPIC, KafkaLog
from firstfault_server.adapters.kafka.topics import topic_name
from firstfault_server.cli.clocks import SystemClock
from firstfault_server.core import model
from firstfault_server.ports import Destination
from tests.contract.logs import everything
from tests.contract.records import event, incident
from tests.integration.cli.sending import send_crash
from tests.integration.distributed.installation import send, wait_for
from tests.integration.distributed.services import Installation, Service
from tests.integration.service.pager import Pager
from tests.unit.alerter.receiver import SECRET

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]


@pytest.fixture
def stores(installation: Installation) -> Iterator[ElasticsearchStores]:
    """What the services have written."""
    opened = open_stores(installation.elasticsearch, SystemClock(), "test")
    yield opened
    opened.close()


def test_a_killed_writer(installation: Installation, tmp_path: Path) -> None:
    at = time.time_ns()
    events = [event(number, time_ns=at + number, received_ns=at, run=f"r-{number % 50}") for number in range(3000)]
    send(installation.kafka, installation.prefix, events)
    with Service("writer", installation.environ(), tmp_path) as writer:
        wait_for(lambda: installation.stored_events() > 0, "some events are stored")
        writer.kill()
        before = installation.stored_events()
        writer.start()
        wait_for(lambda: installation.stored_events() >= len(events), "all events are stored")
        assert installation.stored_events() == len(events)
        assert before < len(events), "it was killed too late to show anything"
        wait_for(lambda: writer.figure("firstfault_consumer_lag_records", loop="context", topic="firstfault.events.v1") == 0, "no lag")


def test_a_killed_alerter(installation: Installation, stores: ElasticsearchStores, tmp_path: Path) -> None:
    at = time.time_ns()
    fault = model.FirstFault(status="settled", rank=0, time=at)
    incidents = [
        incident(number, id=f"i-{number}", page=True, severity="critical", first_fault=fault, opened_at=at, updated_at=at)
        for number in range(40)
    ]
    with Pager(answer_s=0.1) as pager:
        destination = Destination(id="d", tenant="acme", name="pager", url=pager.url, secret=SECRET, allow_private=True, created_ns=at - 1)
        stores.access.put_destination(destination)
        send(installation.kafka, installation.prefix, incidents)
        with Service("alerter", installation.environ(FIRSTFAULT_ALERT_TIMEOUT_S="2"), tmp_path) as alerter:
            wait_for(lambda: len(pager.messages) >= 4, "some pages went out")
            alerter.kill()
            told = len(pager.messages)
            alerter.start()
            wait_for(lambda: len({identity for identity, _ in pager.messages}) >= len(incidents), "all pages went out")
            assert told < len(incidents), "it was killed too late to show anything"
            alerter.wait_until_ready()
    assert {identity for identity, _ in pager.messages} == {f"{each.id}.1" for each in incidents}
    assert {message["type"] for _, message in pager.messages} == {"incident.opened"}
    # What was under way at the kill went out again, under the same id: receivers know it by that.
    stores.access.remove_destination("acme", "d")


def test_a_killed_receiver(installation: Installation, tmp_path: Path) -> None:
    acknowledged: list[str] = []
    enough = threading.Event()
    with Service("ingest", installation.environ(), tmp_path) as ingest:

        def load() -> None:
            number = 0
            while not enough.is_set():
                with contextlib.suppress(urllib.error.URLError, OSError):
                    send_crash(ingest.url("otlp-http"), f"r-sent-{number}")
                    acknowledged.append(f"r-sent-{number}-0")
                number += 1

        sender = threading.Thread(target=load)
        sender.start()
        try:
            wait_for(lambda: len(acknowledged) >= 50, "some were acknowledged")
            ingest.kill()
            before = len(acknowledged)
            ingest.start()
            wait_for(lambda: len(acknowledged) >= before + 50, "it takes more")
        finally:
            enough.set()
            sender.join()
    log = KafkaLog(installation.kafka, topic_name(installation.prefix, TOPIC))
    entries = [entry for _, entry in everything(log)]
    log.close()
    assert set(acknowledged) <= {entry.process for entry in entries}
    assert len({entry.received_ns for entry in entries if entry.signal == "clock"}) > 1
