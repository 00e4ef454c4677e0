"""All four services at once, with a stand-in for detection: records are written as detection would write them."""

import io
import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka import Producer

from firstfault_server.adapters.kafka import TOPIC, KafkaLog
from firstfault_server.adapters.kafka.tail import Tail
from firstfault_server.adapters.kafka.topics import topic_name
from firstfault_server.cli import commands
from firstfault_server.core import model
from firstfault_server.core.buckets import WINDOW_NS
from tests.contract.logs import everything
from tests.contract.records import event, incident, rollup, run
from tests.integration.cli.sending import send_crash
from tests.integration.distributed.installation import send, wait_for
from tests.integration.distributed.services import Installation, Service
from tests.integration.service.pager import Pager

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]
KINDS = ("ingest", "writer", "alerter", "api")
METRICS = Path(__file__).parents[3] / "docs" / "reference" / "metrics.md"
Command = Callable[..., tuple[int, Any]]


class Deployment:
    """The services, and a client of the API with the key that was made first."""

    def __init__(self, installation: Installation, services: dict[str, Service], key: str) -> None:
        self.installation, self.services, self.key = installation, services, key
        self.detector: threading.Thread | None = None
        headers = {"authorization": f"Bearer {key}"}
        self.client = httpx.Client(base_url=services["api"].url("api"), headers=headers, timeout=30, trust_env=False)

    def detect(self, *records: Any) -> None:
        """Write what detection would write."""
        send(self.installation.kafka, self.installation.prefix, records)

    @contextmanager
    def detecting(self) -> Iterator[None]:
        """A stand-in for detection: what has a doctor's mark becomes an event."""
        tail = Tail(self.installation.kafka, self.installation.prefix, TOPIC)
        tail.open()
        over = threading.Event()

        def detect() -> None:
            while not over.is_set():
                for record in tail.read(0.2):
                    for mark in re.findall(rb"doctor [0-9a-f]{16}", record.value):
                        at = time.time_ns()
                        name = mark.decode()
                        self.detect(event(1, id=name, run="firstfault-doctor", body=name, severity=13, time_ns=at, received_ns=at))

        self.detector = threading.Thread(target=detect)
        self.detector.start()
        try:
            yield
        finally:
            over.set()
            self.detector.join()
            tail.close()

    def items(self, path: str, **parameters: Any) -> list[dict[str, Any]]:
        answer = self.client.get(path, params=parameters)
        assert answer.status_code == 200, answer.text
        items: list[dict[str, Any]] = answer.json()["items"]
        return items

    def holds(self, path: str, **parameters: Any) -> Callable[[], bool]:
        return lambda: bool(self.items(path, **parameters))


@pytest.fixture(scope="module")
def deployment(installation: Installation, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """Every service once, for all tests of the module."""
    folder = tmp_path_factory.mktemp("services")
    with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        for name, value in installation.environ().items():
            patch.setenv(name, value)
        key = _first_key()
        patch.undo()
        environ = installation.environ(FIRSTFAULT_PUBLIC_URL="http://people.example")
        with ThreadPoolExecutor() as at_once:
            started = list(at_once.map(lambda kind: Service(kind, environ, folder), KINDS))
        services = {service.kind: stack.enter_context(service) for service in started}
        made = Deployment(installation, services, key)
        stack.callback(made.client.close)
        for service in services.values():
            service.wait_until_ready()
        yield made


@pytest.fixture(scope="module")
def replica(deployment: Deployment, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A client of a second process that serves the API."""
    headers = {"authorization": f"Bearer {deployment.key}"}
    with (
        Service("api", deployment.installation.environ(), tmp_path_factory.mktemp("replica")) as service,
        httpx.Client(base_url=service.url("api"), headers=headers, timeout=30, trust_env=False) as client,
    ):
        yield client


def _first_key() -> str:
    """Made without an API, straight in the store that the settings name."""
    written = io.StringIO()
    with redirect_stdout(written):
        status = commands()["keys"].main(["create", "--direct", "--tenant", "acme", "--name", "first", "-o", "json"])
    assert status == 0
    key: str = json.loads(written.getvalue())["key"]
    return key


def now(**changes: Any) -> dict[str, Any]:
    """Times of records that happen now, as they have to for a page."""
    moment = time.time_ns()
    return {"opened_at": moment, "updated_at": moment, **changes}


def page(number: int, **changes: Any) -> model.Incident:
    """An incident that pages."""
    fault = model.FirstFault(status="settled", rank=3, time=time.time_ns())
    return incident(number, **now(page=True, first_fault=fault, severity="critical", **changes))


def test_what_detection_writes_is_found_through_the_api(deployment: Deployment) -> None:
    at = time.time_ns()
    deployment.detect(
        run(1, run="r-found", started_ns=at, updated_ns=at),
        event(1, run="r-found", time_ns=at, received_ns=at, body="needle"),
        incident(1, run=model.RunRef(id="r-found"), **now()),
        *[rollup(0, run="r-found", window_ns=at // WINDOW_NS * WINDOW_NS, process=f"p-{rank}", rank=rank) for rank in range(4)],
    )
    wait_for(deployment.holds("/v1/events", q="run:r-found needle"), "the event")
    wait_for(deployment.holds("/v1/incidents", q="run:r-found"), "the incident")
    wait_for(deployment.holds("/v1/runs", q="run:r-found"), "the run")
    wait_for(deployment.holds("/v1/runs/r-found/series", metric="loss"), "the numbers")
    assert len(deployment.items("/v1/runs/r-found/series", metric="loss")) == 4
    writer = deployment.services["writer"]
    for kind in ("run", "event", "incident", "rollup"):
        assert writer.figure("firstfault_hop_seconds_count", hop="detected_to_stored", kind=kind) >= 1
    for kind in ("event", "incident"):
        assert writer.figure("firstfault_hop_seconds_count", hop="receipt_to_detected", kind=kind) >= 1
        assert writer.figure("firstfault_hop_seconds_count", hop="receipt_to_stored", kind=kind) >= 1


def test_what_is_received_lies_in_kafka(deployment: Deployment) -> None:
    ingest = deployment.services["ingest"]
    send_crash(ingest.url("otlp-http"), "r-received", key=deployment.key)
    log = KafkaLog(deployment.installation.kafka, topic_name(deployment.installation.prefix, TOPIC))
    entries = [entry for _, entry in everything(log)]
    log.close()
    (crash,) = [entry for entry in entries if entry.process == "r-received-0"]
    assert (crash.tenant, crash.signal) == ("acme", "logs")
    clocks = [entry for entry in entries if entry.signal == "clock"]
    assert len(clocks) >= 2, "in every partition"
    assert ingest.figure("firstfault_ingest_append_seconds_count") >= 1


def test_nobody_gets_in_without_a_key(deployment: Deployment) -> None:
    assert httpx.get(deployment.services["api"].url("api") + "/v1/incidents", trust_env=False).status_code == 401
    ingest = deployment.services["ingest"].url("otlp-http")
    assert httpx.post(f"{ingest}/v1/logs", json={}, trust_env=False).status_code == 401


def test_a_page_goes_out_once_and_marks_of_people_follow(deployment: Deployment) -> None:
    with Pager() as pager:
        body = {"name": "pager", "url": pager.url, "allow_private": True, "where": "is:page run:r-paged"}
        answer = deployment.client.post("/v1/destinations", json=body)
        assert answer.status_code == 201, answer.text
        paged = page(7, id="i-paged", run=model.RunRef(id="r-paged"))
        deployment.detect(paged, paged)
        wait_for(lambda: len(pager.messages) > 0, "the page")
        identity, message = pager.messages[0]
        assert (identity, message["type"]) == ("i-paged.1", "incident.opened")
        assert message["url"].startswith("http://people.example/")
        wait_for(lambda: deployment.client.get("/v1/incidents/i-paged").status_code == 200, "the incident is stored")
        assert deployment.client.post("/v1/incidents/i-paged/ack", json={}).status_code == 200
        assert deployment.client.post("/v1/incidents/i-paged/resolve", json={}).status_code == 200
        wait_for(lambda: len(pager.messages) > 1, "the end")
        assert [(identity, message["type"]) for identity, message in pager.messages] == [
            ("i-paged.1", "incident.opened"),
            ("i-paged.2", "incident.resolved"),
        ]
        deployment.client.delete(f"/v1/destinations/{answer.json()['id']}")
    alerter = deployment.services["alerter"]
    assert alerter.figure("firstfault_hop_seconds_count", hop="settled_to_planned", kind="opened") == 1
    wait_for(lambda: alerter.figure("firstfault_hop_seconds_count", hop="planned_to_delivered", kind="opened") == 1, "the delivery counts")


def test_a_stream_hears_of_incidents_and_of_marks_made_elsewhere(deployment: Deployment, replica: httpx.Client) -> None:
    heard: list[dict[str, Any]] = []
    with deployment.client.stream("GET", "/v1/stream", params={"q": "run:r-heard"}) as stream:
        lines = stream.iter_lines()
        assert next(lines) == ": connected"
        deployment.detect(incident(3, id="i-heard", run=model.RunRef(id="r-heard"), **now()))
        heard.append(_next_incident(lines))
        assert (heard[0]["id"], heard[0]["state"]) == ("i-heard", "open")
        answer = replica.post("/v1/incidents/i-heard/ack", json={})
        assert answer.status_code == 200, answer.text
        while heard[-1]["state"] == "open":
            heard.append(_next_incident(lines))
        assert heard[-1]["state"] == "acknowledged"


def _next_incident(lines: Iterator[str]) -> dict[str, Any]:
    for line in lines:
        if line.startswith("data: {"):
            found: dict[str, Any] = json.loads(line.removeprefix("data: "))
            return found
    raise AssertionError("the stream ended")


def test_cursors_of_one_replica_are_good_at_another(deployment: Deployment, replica: httpx.Client) -> None:
    at = time.time_ns()
    deployment.detect(*[event(100 + number, run="r-pages", time_ns=at + number, received_ns=at) for number in range(5)])
    wait_for(lambda: len(deployment.items("/v1/events", q="run:r-pages")) == 5, "the events")
    first = deployment.client.get("/v1/events", params={"q": "run:r-pages", "limit": 2}).json()
    rest = replica.get("/v1/events", params={"q": "run:r-pages", "limit": 10, "cursor": first["next_cursor"]})
    assert rest.status_code == 200, rest.text
    assert len({item["id"] for item in first["items"] + rest.json()["items"]}) == 5


def test_a_record_that_nobody_can_read_becomes_a_dead_letter(deployment: Deployment) -> None:
    writer = deployment.services["writer"]
    producer = Producer({"bootstrap.servers": deployment.installation.kafka.bootstrap})
    producer.produce(topic_name(deployment.installation.prefix, "firstfault.events.v1"), key=b"acme/r", value=b"\xff\xff")
    producer.flush(30)
    at = time.time_ns()
    deployment.detect(event(300, run="r-after", time_ns=at, received_ns=at))
    wait_for(deployment.holds("/v1/events", q="run:r-after"), "what came after it")
    wait_for(lambda: writer.figure("firstfault_writer_stored_total", kind="dead_letter") >= 1, "the dead letter is stored")
    assert writer.figure("firstfault_writer_dead_letters_total", reason="unreadable") == 1


def doctor(deployment: Deployment, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, bool]]:
    """Exit status, and whether each hop went well."""
    monkeypatch.setenv("HOME", "/nonexistent")
    for name, value in deployment.installation.settings.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("FIRSTFAULT_API_URL", deployment.services["api"].url("api"))
    monkeypatch.setenv("FIRSTFAULT_API_KEY", deployment.key)
    capsys.readouterr()
    status = commands()["doctor"].main(
        ["--endpoint", deployment.services["ingest"].url("otlp-http"), "--within", "30" if _detecting(deployment) else "2", "-o", "json"]
    )
    return status, {hop["hop"]: hop["ok"] for hop in json.loads(capsys.readouterr().out)["items"]}


def _detecting(deployment: Deployment) -> bool:
    return deployment.detector is not None and deployment.detector.is_alive()


def test_the_doctor_names_the_hop_that_fails(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hops = {"api": True, "ready": True, "ingest": True, "log": True, "detection": False}
    assert doctor(deployment, monkeypatch, capsys) == (1, hops)
    with deployment.detecting():
        assert doctor(deployment, monkeypatch, capsys) == (0, hops | {"detection": True, "query": True})


@pytest.mark.parametrize("kind", KINDS)
def test_each_tells_of_its_health(deployment: Deployment, kind: str) -> None:
    service = deployment.services[kind]
    assert httpx.get(f"{service.health}/healthz", trust_env=False).json() == {"status": "ok"}
    assert service.problems() == {}
    assert service.figure("process_start_time_seconds") > 0


@pytest.mark.parametrize("kind", KINDS)
def test_its_metrics_are_the_documented_ones(deployment: Deployment, kind: str) -> None:
    text = httpx.get(f"{deployment.services[kind].health}/metrics", trust_env=False).text
    told = set(re.findall(r"^# TYPE (firstfault_\w+)(?<!_created) ", text, re.MULTILINE))
    rows = [line.split(" | ") for line in METRICS.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    assert told == {row[0].strip("| `") for row in rows if kind in row[-1].strip(" |").split(", ")}
