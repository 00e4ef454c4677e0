"""How a cluster is named in messages, and what its errors mean."""

import pytest
from confluent_kafka import KafkaError, KafkaException

from firstfault_server.adapters.kafka import Connection
from firstfault_server.adapters.kafka.connection import REFUSED_S

CONNECTION = Connection(bootstrap="one:9092", security={"security.protocol": "SASL_SSL", "sasl.password": "hunter2"})

CONNECTION_WITHOUT = Connection(bootstrap="one:9092", security={"sasl.mechanisms": "PLAIN", "sasl.password": "hunter2"})


def test_secrets_reach_the_client_but_are_not_shown() -> None:
    assert CONNECTION.options()["sasl.password"] == "hunter2"
    assert "hunter2" not in repr(CONNECTION)


def test_names_of_options_have_dots() -> None:
    assert CONNECTION.options(linger_ms=5)["linger.ms"] == 5


@pytest.mark.parametrize(
    ("security", "says"),
    [
        ({"foo.bar": "x"}, "foo.bar"),
        ({"security.protocol": "hunter2"}, "security.protocol"),
        ({"security.protocol": "ssl", "ssl.ca.location": "/nowhere"}, "ssl.ca.location"),
    ],
)
def test_options_that_cannot_be_are_named_without_their_values(security: dict[str, str], says: str) -> None:
    with pytest.raises(ValueError, match=says) as failure:
        Connection(bootstrap="one:9092", security=security).check()
    assert "hunter2" not in str(failure.value)
    CONNECTION_WITHOUT.check()


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)), "run `firstfault migrate`"),
        (KafkaError(KafkaError._MSG_TIMED_OUT), "no broker took the record in time"),
        (KafkaError(KafkaError.SASL_AUTHENTICATION_FAILED), "the account or its password was refused"),
        (KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED), "CLUSTER_AUTHORIZATION_FAILED"),
        (KafkaException("something else"), "something else"),
    ],
    ids=str,
)
def test_errors_name_the_cluster_and_the_reason(error: KafkaException | KafkaError, says: str) -> None:
    message = str(CONNECTION.unavailable(error, "append to t"))
    assert message.startswith("Kafka at one:9092 cannot append to t: ")
    assert says in message


def test_nobody_answers_while_the_account_is_refused() -> None:
    connection = Connection(bootstrap="one:9092")
    silent = KafkaError(KafkaError._TRANSPORT)
    assert "no broker can be reached (_TRANSPORT)" in str(connection.unavailable(silent, "read t"))
    connection.options()["error_cb"](KafkaError(KafkaError._ALL_BROKERS_DOWN))
    assert "no broker can be reached (_TRANSPORT)" in str(connection.unavailable(silent, "read t"))
    connection.options()["error_cb"](KafkaError(KafkaError._AUTHENTICATION))
    assert "the account or its password was refused (_AUTHENTICATION)" in str(connection.unavailable(silent, "read t"))
    assert "the topic does not exist" in str(connection.unavailable(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART), "read t"))
    connection.refusals.heard_at -= REFUSED_S
    assert "no broker can be reached (_TRANSPORT)" in str(connection.unavailable(silent, "read t"))
