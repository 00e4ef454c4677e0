"""How the Kafka clients connect, and what their errors mean to the service."""

import logging
import math
import time
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from firstfault_server.ports import StoreUnavailable

REQUEST_S: Final = 10.0
"""How long a question to the cluster may take before the cluster counts as unavailable."""

REASONS: Final[Mapping[str, str]] = {
    "UNKNOWN_TOPIC_OR_PART": "the topic does not exist; run `firstfault migrate`",
    "_UNKNOWN_TOPIC": "the topic does not exist; run `firstfault migrate`",
    "_UNKNOWN_PARTITION": "the topic does not have this partition; run `firstfault migrate`",
    "TOPIC_AUTHORIZATION_FAILED": "the account may not use the topic",
    "SASL_AUTHENTICATION_FAILED": "the account or its password was refused",
    "_AUTHENTICATION": "the account or its password was refused",
    "_ALL_BROKERS_DOWN": "no broker can be reached",
    "_TRANSPORT": "no broker can be reached",
    "_MSG_TIMED_OUT": "no broker took the record in time",
    "_TIMED_OUT": "no answer in time",
    "_QUEUE_FULL": "too much waits to be sent",
    "NOT_ENOUGH_REPLICAS": "too few replicas are in sync",
    "MSG_SIZE_TOO_LARGE": "a record is larger than max.message.bytes of the topic",
    "KAFKA_STORAGE_ERROR": "a broker cannot write to its disk",
}

REFUSAL: Final = "_AUTHENTICATION"
SILENT: Final = frozenset({"_TRANSPORT", "_ALL_BROKERS_DOWN", "_TIMED_OUT", "_MSG_TIMED_OUT"})
"""What a call is told when nobody answered, for whatever reason."""
REFUSED_S: Final = 10.0
"""Clients try again far more often: a refusal that is older is over."""


class Refusals(msgspec.Struct):
    """What clients hear besides the answers to calls: whether brokers refuse the account."""

    heard_at: float = -math.inf

    def hear(self, error: KafkaError) -> None:
        """Called by a client while it is polled."""
        if error.name() == REFUSAL:
            self.heard_at = time.monotonic()

    @property
    def recent(self) -> bool:
        """Whether the account is refused now."""
        return time.monotonic() < self.heard_at + REFUSED_S


class Connection(msgspec.Struct, kw_only=True, frozen=True):
    """Where the cluster is and how to get in."""

    bootstrap: str
    """HOST:PORT, several with commas."""
    security: dict[str, str] = {}
    """Options of librdkafka as they are, for instance `security.protocol`, `sasl.username`, `ssl.ca.location`."""
    refusals: Refusals = msgspec.field(default_factory=Refusals)

    def __repr__(self) -> str:
        """Without secrets."""
        return f"Connection({self.bootstrap}, security={sorted(self.security)})"

    def options(self, **more: Any) -> dict[str, Any]:
        """Configuration of a client; underscores in names stand for dots."""
        base: dict[str, Any] = {
            "bootstrap.servers": self.bootstrap,
            "client.id": "firstfault",
            "socket.keepalive.enable": True,
            "reconnect.backoff.ms": 50,
            "reconnect.backoff.max.ms": 500,
            # Faults show in the answers to what was asked; each client reporting them again would only repeat it.
            "log_level": 2,
            "logger": logging.getLogger("firstfault_server.adapters.kafka"),
            # A refused account is no answer to anything: calls only see that nobody answers.
            "error_cb": self.refusals.hear,
        }
        return base | self.security | {name.replace("_", "."): value for name, value in more.items()}

    def check(self) -> None:
        """Raises ValueError for options of librdkafka that cannot be, without the values in them. Asks no broker."""
        options = self.options()
        # A client that knows brokers looks for them at once, and cannot be closed while it does.
        del options["bootstrap.servers"]
        try:
            AdminClient(options)
        except KafkaException as error:
            cause = error.args[0]
            reason = cause.str() if isinstance(cause, KafkaError) else str(cause)
            for value in self.security.values():
                reason = reason.replace(f'"{value}"', "(what is set)") if value else reason
            raise ValueError(reason) from error

    def unavailable(self, error: KafkaException | KafkaError, doing: str) -> StoreUnavailable:
        """The error as the ports know it. `doing` completes "Kafka cannot …"."""
        cause = error.args[0] if isinstance(error, KafkaException) else error
        if not isinstance(cause, KafkaError):
            return StoreUnavailable(f"Kafka at {self.bootstrap} cannot {doing}: {cause}")
        name = REFUSAL if cause.name() in SILENT and self.refusals.recent else cause.name()
        return StoreUnavailable(f"Kafka at {self.bootstrap} cannot {doing}: {REASONS.get(name, cause.str())} ({name})")
