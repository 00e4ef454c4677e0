"""The four services as the server image has them: from their own lock, which leaves out the embedded store, on real servers."""

import json
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import httpx
import pytest

from firstfault_server.core import model
from firstfault_server.core.buckets import WINDOW_NS
from firstfault_server.wire.outputs import OutputRecord
from tests.contract.records import event, incident, rollup, run
from tests.integration.cli.sending import send_crash
from tests.integration.distributed.installation import send, wait_for
from tests.integration.distributed.services import Installation, Service, clean_environment
from tests.integration.distributed.small_environment import SmallEnvironment

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]
KINDS = ("ingest", "writer", "alerter", "api")
LARGEST_MB = 250
"""The one with everything has more than three times that."""


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> SmallEnvironment:
    """Made once."""
    return SmallEnvironment(tmp_path_factory.mktemp("small"))


def command(small: SmallEnvironment, *words: str, environ: dict[str, str] | None = None) -> "subprocess.CompletedProcess[str]":
    """`firstfault …` there."""
    variables = small.environ(environ if environ is not None else clean_environment())
    program = [str(small.python), "-m", "firstfault", *words]
    return subprocess.run(program, env=variables, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=120)


@pytest.mark.parametrize("words", [*[("serve", kind) for kind in KINDS], ("migrate",), ("doctor",), ("keys", "create")], ids=" ".join)
def test_commands_are_there(small: SmallEnvironment, words: tuple[str, ...]) -> None:
    done = command(small, *words, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert "Usage" in done.stdout


def test_it_is_small(small: SmallEnvironment) -> None:
    for name in ("chdb", "pandas", "pyarrow", "numpy"):
        assert subprocess.run([small.python, "-c", f"import {name}"], capture_output=True, check=False).returncode == 1, name
    size = small.megabytes()
    print(f"packages of the server image: {size:.0f} MB")
    assert size < LARGEST_MB


@pytest.fixture(scope="module")
def services(small: SmallEnvironment, installation: Installation, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Service]]:
    """All four, ready."""
    folder, environ = tmp_path_factory.mktemp("services"), small.environ(installation.environ())
    with ExitStack() as stack:
        with ThreadPoolExecutor() as at_once:
            started = list(at_once.map(lambda kind: Service(kind, environ, folder, small.python), KINDS))
        found = {service.kind: stack.enter_context(service) for service in started}
        for service in found.values():
            service.wait_until_ready()
        yield found


def test_they_work_on_real_servers(small: SmallEnvironment, installation: Installation, services: dict[str, Service]) -> None:
    """Migrate, take a crash into Kafka, store what detection writes in both stores, and answer from both."""
    environ = installation.environ()
    done = command(small, "migrate", environ=environ)
    assert done.returncode == 0, done.stderr
    made = command(small, "keys", "create", "--direct", "--tenant", "acme", "-o", "json", environ=environ)
    assert made.returncode == 0, made.stderr
    key = json.loads(made.stdout)["key"]
    send_crash(services["ingest"].url("otlp-http"), "r-small", key=key)
    at = time.time_ns()
    records: list[OutputRecord] = [
        run(1, run="r-small", started_ns=at, updated_ns=at),
        event(1, run="r-small", time_ns=at, received_ns=at, body="needle"),
        incident(1, run=model.RunRef(id="r-small"), opened_at=at, updated_at=at),
        rollup(0, run="r-small", window_ns=at // WINDOW_NS * WINDOW_NS, process="p-0", rank=0),
    ]
    send(installation.kafka, installation.prefix, records)
    with httpx.Client(
        base_url=services["api"].url("api"), headers={"authorization": f"Bearer {key}"}, timeout=30, trust_env=False
    ) as client:

        def holds(path: str, **asked: str) -> bool:
            answer = client.get(path, params=asked)
            return answer.status_code == 200 and len(answer.json()["items"]) == 1

        wait_for(lambda: holds("/v1/incidents", q="run:r-small"), "the incident")
        wait_for(lambda: holds("/v1/events", q="run:r-small needle"), "the event")
        wait_for(lambda: holds("/v1/runs/r-small/series", metric="loss"), "the numbers")
    assert services["ingest"].figure("firstfault_ingest_append_seconds_count") >= 1
