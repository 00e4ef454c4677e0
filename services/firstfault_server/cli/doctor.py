"""`firstfault doctor`: sends one marked event through a deployment and says where it got to, with the time of each hop."""

import os
import secrets
import time
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Annotated, Any, Protocol

import httpx
import typer

from firstfault_server import settings as configuration
from firstfault_server.cli import terminal
from firstfault_server.cli.client import Client, UrlOption, connect
from firstfault_server.ports import StoreUnavailable
from firstfault_server.wire.incoming import TopicRecord
from firstfault_server.wire.outputs import EVENTS

DEFAULT_ENDPOINT = "http://127.0.0.1:4318"
ENDPOINT_VARIABLES = ("FIRSTFAULT_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
"""Where jobs are told their receiver; the first that is set counts."""
ONLY_DEFAULT = "this is only the default: set FIRSTFAULT_ENDPOINT or --endpoint to where jobs send"
RUN = "firstfault-doctor"
WARNING = 13
"""OpenTelemetry severity number from which a log record can be searched."""

app = terminal.application("Send one marked event through the deployment and show each hop.")
app.info.no_args_is_help = False


@app.command()
def doctor(
    endpoint: Annotated[str | None, typer.Option(help="OTLP/HTTP receiver (default: FIRSTFAULT_ENDPOINT).", show_default=False)] = None,
    within_s: Annotated[float, typer.Option("--within", min=0.1, help="Seconds until the event must be found.")] = 30.0,
    output: terminal.OutputOption = None,
    api_url: UrlOption = None,
) -> None:
    """Send one marked event and follow it; exit 1 when a hop fails."""
    client, form = connect(api_url, output)
    named = endpoint or next(filter(None, map(os.environ.get, ENDPOINT_VARIABLES)), None)
    with ExitStack() as stack:
        hops = examine(client, named, within_s, _topics(stack))
    if form == "table":
        rows = [[hop["hop"], "ok" if hop["ok"] else "FAILED", f"{hop['ms']:.0f}", hop["detail"]] for hop in hops]
        terminal.table(["HOP", "RESULT", "MS", "DETAIL"], rows)
    else:
        terminal.emit({"items": hops}, form)
    if not all(hop["ok"] for hop in hops):
        raise typer.Exit(terminal.EXIT_FOUND)


class Topic(Protocol):
    """A topic between two hops, read from its end."""

    def open(self) -> None:
        """Stand at the end. Raises StoreUnavailable."""

    def read(self, wait_s: float) -> list[TopicRecord]:
        """What came since. Raises StoreUnavailable."""


def _topics(stack: ExitStack) -> dict[str, Topic]:
    """The topics of the distributed service by the hop that writes them; none where the settings name no Kafka."""
    settings = configuration.load()
    if not settings.kafka_bootstrap:
        return {}
    from firstfault_server.adapters.kafka import TOPIC
    from firstfault_server.adapters.kafka.tail import Tail
    from firstfault_server.cli.connections import kafka_connection

    tails = {hop: Tail(kafka_connection(settings), settings.kafka_prefix, topic) for hop, topic in (("log", TOPIC), ("detection", EVENTS))}
    for tail in tails.values():
        stack.callback(tail.close)
    return {**tails}


def examine(client: Client, named: str | None, within_s: float, topics: Mapping[str, Topic] | None = None) -> list[dict[str, Any]]:
    """Every hop with its result and time; those behind a failed one are left out. `named`: the receiver, None when nobody said."""
    hops: list[dict[str, Any]] = []
    endpoint, origin = (named or DEFAULT_ENDPOINT).rstrip("/"), "" if named else f"; {ONLY_DEFAULT}"
    topics = topics or {}
    marker = f"doctor {secrets.token_hex(8)}"

    def hop(name: str, started: float, problem: str, detail: str = "") -> bool:
        hops.append({"hop": name, "ok": not problem, "ms": (time.monotonic() - started) * 1000, "detail": problem or detail})
        return not problem

    started = time.monotonic()
    client.get("/healthz")
    hop("api", started, "", client.url)
    started = time.monotonic()
    hop("ready", started, _unready(client))
    started = time.monotonic()
    opened = _opened(topics)
    if opened and not hop("kafka", started, opened):
        return hops
    started = time.monotonic()
    refused = _send(endpoint, client.key, marker)
    if hop("ingest", started, f"{refused}{origin}" if refused else "", f"{endpoint}, durable when acknowledged{origin}"):
        for name, topic in topics.items():
            started = time.monotonic()
            if not hop(name, started, _passed(topic, marker, within_s), "the event has passed"):
                return hops
        started = time.monotonic()
        event = _find(client, marker, within_s)
        hop("query", started, "" if event else f"the event was not found within {within_s:g} s", f"event {event['id']}" if event else "")
    return hops


def _opened(topics: Mapping[str, Topic]) -> str:
    """Why the topics cannot be read; empty: they can."""
    try:
        for topic in topics.values():
            topic.open()
    except StoreUnavailable as error:
        return str(error)
    return ""


def _passed(topic: Topic, marker: str, within_s: float) -> str:
    """Why the marked event was not seen in the topic; empty: it was."""
    deadline = time.monotonic() + within_s
    try:
        while (left := deadline - time.monotonic()) > 0:
            if any(marker.encode() in record.value for record in topic.read(min(left, 0.5))):
                return ""
    except StoreUnavailable as error:
        return str(error)
    return f"the event did not come within {within_s:g} s"


def _unready(client: Client) -> str:
    document = client.get("/readyz", accept=(503,))
    return "; ".join(f"{part}: {why}" for part, why in document.get("problems", {}).items())


def _send(endpoint: str, key: str, marker: str) -> str:
    """Why the event was not acknowledged; empty when it was."""
    process = secrets.token_hex(16)
    resource = {"service.instance.id": process, "service.name": "firstfault-doctor", "train.run.id": RUN, "train.role": "auxiliary"}
    record = {
        "timeUnixNano": str(time.time_ns()),
        "severityNumber": WARNING,
        "eventName": "firstfault.doctor",
        "body": {"stringValue": marker},
    }
    ended = {
        "timeUnixNano": record["timeUnixNano"],
        "severityNumber": 9,
        "eventName": "train.exit",
        "attributes": [{"key": "train.exit.state", "value": {"stringValue": "finished"}}],
    }
    attributes = [{"key": name, "value": {"stringValue": value}} for name, value in resource.items()]
    body = {"resourceLogs": [{"resource": {"attributes": attributes}, "scopeLogs": [{"scope": {}, "logRecords": [record, ended]}]}]}
    headers = {"authorization": f"Bearer {key}"} if key else {}
    try:
        response = httpx.post(f"{endpoint}/v1/logs", json=body, headers=headers, timeout=15, trust_env=False)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        return f"{endpoint} cannot be reached: {error}"
    if response.status_code != 200 or response.json():
        return f"{endpoint} answered {response.status_code}: {response.text[:300]}"
    return ""


def _find(client: Client, marker: str, within_s: float) -> dict[str, Any] | None:
    deadline = time.monotonic() + within_s
    while True:
        for event in client.get("/v1/events", q=f'run:{RUN} "{marker}"')["items"]:
            found: dict[str, Any] = event
            return found
        if time.monotonic() > deadline:
            return None
        time.sleep(0.05)


def main(argv: list[str]) -> int:
    """Entry of the command."""
    return terminal.run(app, argv, "doctor")
