"""The Collector of a node in front of the distributed ingest: what it took lies in Kafka, whichever of the two is killed."""

import contextlib
import io
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from firstfault_server.adapters.kafka import TOPIC, KafkaLog
from firstfault_server.adapters.kafka.topics import topic_name
from firstfault_server.cli import keys
from firstfault_server.core.model import Batch
from firstfault_server.wire.otlp import decode
from tests.contract.logs import everything
from tests.integration.deploy.collector import Collector, attributes, gauge, logs, process, record
from tests.integration.distributed.installation import wait_for
from tests.integration.distributed.services import Installation, Service

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1800)]
"""The first that needs the Collector may have to build it."""

LINE = "NVRM: Xid (PCI:0000:3b:00): 79, pid=4000, name=python, GPU has fallen off the bus."


@pytest.fixture(scope="module")
def agent_key(installation: Installation) -> str:
    """A key for a node agent, put into Elasticsearch directly."""
    said = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(said):
        for name, value in installation.settings.items():
            patch.setenv(name, value)
        status = keys.main(["create", "--direct", "--tenant", "acme", "--scope", "ingest", "--scope", "node", "-o", "json"])
    assert status == 0, said.getvalue()
    key: str = json.loads(said.getvalue())["key"]
    return key


@pytest.fixture
def ingest(installation: Installation, tmp_path: Path) -> Iterator[Service]:
    """A receiver, ready."""
    with Service("ingest", installation.environ(), tmp_path) as service:
        service.wait_until_ready()
        yield service


def stored(installation: Installation) -> list[Batch]:
    """What detection would read of the topic."""
    log = KafkaLog(installation.kafka, topic_name(installation.prefix, TOPIC))
    try:
        entries = [entry for _, entry in everything(log) if entry.signal != "clock"]
    finally:
        log.close()
    assert {entry.tenant for entry in entries} <= {"acme"}
    return [batch for entry in entries for batch in decode(entry, "")]


def test_kills_on_both_sides(installation: Installation, agent_key: str, ingest: Service, tmp_path: Path) -> None:
    """Numbered batches under load, while ingest and the Collector are killed in turn: each that was acknowledged is there."""
    acknowledged: dict[int, list[float]] = {}
    number = iter(range(1_000_000))
    enough = threading.Event()
    with Collector(tmp_path / "agent", ingest.url("otlp-http"), agent_key) as collector:

        def load() -> None:
            while not enough.is_set():
                own = next(number)
                values = [float(own * 10 + point) for point in range(5)]
                request = gauge(process("killed", 0), "train.loss", [(point + 1, value) for point, value in enumerate(values)])
                scope = request["resourceMetrics"][0]["scopeMetrics"][0]
                scope["scope"] = {"attributes": attributes({"firstfault.batch.sender": "one", "firstfault.batch.seq": own})}
                with contextlib.suppress(httpx.HTTPError):
                    if httpx.post(f"{collector.otlp_url}/v1/metrics", json=request, timeout=20).status_code == 200:
                        acknowledged[own] = values

        def more(count: int, what: str) -> None:
            before = len(acknowledged)
            wait_for(lambda: len(acknowledged) >= before + count, what)

        with ThreadPoolExecutor(1) as senders:
            sending = senders.submit(load)
            try:
                more(20, "a beginning")
                ingest.kill()
                more(20, "while ingest is away")
                collector.kill()
                collector.start()
                more(20, "after the Collector came back")
                ingest.start()
                more(20, "after ingest came back")
            finally:
                enough.set()
            sending.result()
        found: dict[int, list[float]] = {}

        def arrived() -> bool:
            found.clear()
            for batch in stored(installation):
                if batch.identity.run != "killed":
                    continue  # of another test
                assert batch.sequence is not None
                values = [value for one in batch.series for value in one.values]
                # What was under way at a kill may come again: the same batch under the same number, which detection knows.
                assert found.setdefault(batch.sequence, values) == values
            return acknowledged.keys() <= found.keys()

        wait_for(arrived, "every acknowledged batch is in Kafka")
    assert {sequence: found[sequence] for sequence in acknowledged} == acknowledged


def test_the_kernel_log_speaks_and_processes_do_not(installation: Installation, agent_key: str, ingest: Service, tmp_path: Path) -> None:
    log = tmp_path / "kern.log"
    log.write_text("Nov 29 10:00:00 node-a kernel: [1.0] before\n")
    configs = ("node.yaml", "kernel.yaml", "kernel-file.yaml")
    with Collector(tmp_path / "agent", ingest.url("otlp-http"), agent_key, configs, "node-a", KERNEL_FILE=str(log)) as collector:
        wait_for(collector.watches, "the file")
        collector.send("logs", logs(process("forger", 0), record("forged", 17, "node.xid"), record("honest", 17)))
        with log.open("a") as file:
            file.write(f"Nov 29 10:00:02 node-a kernel: [ 123.456789] {LINE}\n")

        def said() -> set[tuple[str, str]]:
            return {(one.event_name, one.body) for batch in stored(installation) for one in batch.logs}

        wait_for(lambda: {("", "honest"), ("node.xid", LINE)} <= said(), "both records")
        assert not any(body == "forged" for _, body in said())
