"""A broker that asks who is there: with the right password everything works, with a wrong one the error says so."""

from collections.abc import Iterator

import pytest

from deploy.native.servers.kafka import MECHANISM, Kafka
from firstfault_server.adapters.kafka import Connection, KafkaLog, Topic, ensure_topics
from firstfault_server.ports import StoreUnavailable
from tests.contract.logs import clock, entry, everything, put

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]
USER, PASSWORD = "firstfault", "s3cret"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    """A node with one account."""
    started = Kafka(tmp_path_factory.mktemp("kafka") / "server", accounts={USER: PASSWORD})
    started.start()
    yield started
    started.stop()


def security(password: str) -> dict[str, str]:
    """The setting `kafka_security`."""
    return {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": MECHANISM, "sasl.username": USER, "sasl.password": password}


def test_the_log_with_an_account(broker: Kafka) -> None:
    connection = Connection(bootstrap=broker.guarded_address, security=security(PASSWORD))
    ensure_topics(connection, [Topic(name="t", partitions=3, settings={"retention.ms": "-1"})])
    log = KafkaLog(connection, "t")
    put(log, *(entry(number) for number in range(20)), clock(20))
    assert {each.received_ns for _, each in everything(log)} == {entry(number).received_ns for number in range(21)}
    log.close()


@pytest.mark.parametrize(
    ("given", "why"),
    [(security("wrong"), "the account or its password was refused"), ({}, "no broker can be reached")],
    ids=["a wrong password", "no account"],
)
def test_the_log_without_one(broker: Kafka, given: dict[str, str], why: str) -> None:
    def connection() -> Connection:
        return Connection(bootstrap=broker.guarded_address, security=given)

    with pytest.raises(StoreUnavailable, match=f"cannot prepare the topics: {why}"):
        ensure_topics(connection(), [Topic(name="never", partitions=1)])
    log = KafkaLog(connection(), "t", delivery_s=3.0)
    with pytest.raises(StoreUnavailable, match=f"cannot append to t: {'no broker took the record' if not given else why}"):
        put(log, entry(1))
    log.close()
    log = KafkaLog(connection(), "t")
    with pytest.raises(StoreUnavailable, match=f"cannot describe t: {why}"):
        log.read(None, 1000)
    log.close()
