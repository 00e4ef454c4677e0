"""More instances of the source than the input has partitions are refused; a Kafka that is away refuses nothing."""

from pathlib import Path

import pytest

from deploy.native.servers.flink import JOB as DETECTION
from deploy.native.servers.flink import Flink
from deploy.native.servers.process import ServerFailed, free_ports
from tests.parity.topics import Topics

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

JOB = Path(__file__).with_name("checked_job.py")


def said(flink: Flink, address: str, prefix: str, parallelism: int, job: Path = JOB) -> str:
    """What the program says. It always fails: it makes no job."""
    arguments = ("--kafka-bootstrap", address, "--kafka-prefix", prefix, "--flink-parallelism", str(parallelism))
    with pytest.raises(ServerFailed) as failed:
        flink.submit(*arguments, job=job)
    return str(failed.value)


@pytest.fixture
def client(tmp_path: Path) -> Flink:
    """Enough to run the program that makes a job; no cluster."""
    made = Flink(tmp_path / "flink")
    made.prepare()
    return made


def test_the_partitions_of_the_input_are_asked_for(client: Flink, kafka_address: str) -> None:
    topics = Topics(kafka_address, 2)
    try:
        refused = said(client, kafka_address, topics.prefix, 3)
        assert "REFUSED flink_parallelism: 3 instances of the source cannot share the 2 partitions" in refused
        assert "set it to at most 2" in refused
        assert "PASSED" in said(client, kafka_address, topics.prefix, 2)
        assert "detect: flink_parallelism: 3 instances" in said(client, kafka_address, topics.prefix, 3, DETECTION)
    finally:
        topics.close()


def test_a_kafka_that_is_away_refuses_nothing(client: Flink) -> None:
    (port,) = free_ports(1)
    found = said(client, f"127.0.0.1:{port}", "firstfault", 3)
    assert "PASSED" in found
    assert "Kafka did not say how many partitions firstfault.otlp.v1 has" in found
