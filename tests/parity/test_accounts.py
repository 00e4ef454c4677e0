"""The job at a broker that asks who is there: with the right password it works, with a wrong one Flink says why it does not run."""

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from deploy.native.servers.flink import Flink
from deploy.native.servers.kafka import MECHANISM, Kafka
from firstfault_server.core.thresholds import Thresholds
from firstfault_server.detect.flink import plan
from tests.integration.service.running import wait_for
from tests.parity.outcomes import differences, embedded
from tests.parity.topics import Topics
from tests.property.scripts import Script
from tests.unit.detect.recordings import recording

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]
# Quotes and a backslash have a meaning where the Java client reads it.
USER, PASSWORD = "firstfault", 'sec"ret\\'
PATIENCE_S = 120.0


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    """A node with one account. What tests do themselves they do without it."""
    started = Kafka(tmp_path_factory.mktemp("kafka") / "server", accounts={USER: PASSWORD})
    started.start()
    yield started
    started.stop()


def arguments(broker: Kafka, prefix: str, password: str) -> list[str]:
    """Of a job that uses the listener with accounts."""
    security = {"security.protocol": "sasl_plaintext", "sasl.mechanism": MECHANISM, "sasl.username": USER, "sasl.password": password}
    return ["--kafka-bootstrap", broker.guarded_address, "--kafka-prefix", prefix, "--kafka-security", json.dumps(security)]


def test_the_job_with_an_account(broker: Kafka, flink: Flink) -> None:
    topics = Topics(broker.address, 1)
    script = Script(2, tenant="t")
    step = script.train(0, 8)
    script.exception(8, 1, "ValueError", "a sample has no label", step=step)
    script.exit(8.2, 1, "failed", code=1)
    try:
        job = flink.submit(*arguments(broker, topics.prefix, PASSWORD))
        topics.write(recording(script, 30))
        wanted = embedded(plan.stages(Thresholds()), topics.written())
        found = topics.read_until(lambda so_far: so_far.incidents == wanted.incidents, PATIENCE_S)
        flink.rest.cancel(job, PATIENCE_S)
    finally:
        topics.close()
    assert wanted.incidents
    assert differences(found.incidents, wanted.incidents) == []


def test_the_job_with_a_wrong_password(broker: Kafka, flink: Flink) -> None:
    topics = Topics(broker.address, 1)
    named = f"{topics.prefix}.detect"

    def jobs() -> list[str]:
        return [job["jid"] for job in (flink.rest.ask("/jobs/overview") or {}).get("jobs", []) if job["name"] == named]

    with ThreadPoolExecutor() as apart:
        submitted = apart.submit(flink.submit, *arguments(broker, topics.prefix, "wrong"))
        try:
            wait_for(lambda: bool(jobs()), PATIENCE_S, "the job is there")
            (job,) = jobs()
            began = time.monotonic()
            wait_for(lambda: "SaslAuthenticationException" in flink.rest.failure(job), PATIENCE_S, "Flink says why it does not run")
            print(f"\nsaid after {time.monotonic() - began:.1f} s", end="")
            assert "invalid credentials" in flink.rest.failure(job)
        finally:
            for each in jobs():
                flink.rest.cancel(each, PATIENCE_S)
            # It waits for a job that runs.
            submitted.exception(PATIENCE_S)
            topics.close()
