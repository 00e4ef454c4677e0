"""An installation of a test: topics, indices and a database of its own on servers that others use, too."""

import threading
import time
import uuid
from collections.abc import Callable, Sequence

import msgspec

from firstfault_server.adapters.kafka import Connection, RecordSender, ensure_topics
from firstfault_server.adapters.kafka.topics import topics
from firstfault_server.wire.outputs import OutputRecord

WITHIN_S = 60.0


def new_prefix() -> str:
    """A name that no other test has; fit for topics, indices and databases."""
    return f"t{uuid.uuid4().hex[:12]}"


def make_topics(address: str, prefix: str, partitions: int = 2) -> Connection:
    """The topics of the service, small."""
    connection = Connection(bootstrap=address)
    small = [msgspec.structs.replace(topic, partitions=partitions) for topic in topics(prefix)]
    ensure_topics(connection, small)
    return connection


def send(connection: Connection, prefix: str, records: Sequence[OutputRecord]) -> None:
    """Write what detection would write."""
    RecordSender(connection, prefix).send(records)


def wait_for(holds: Callable[[], bool], what: str, within_s: float = WITHIN_S) -> None:
    """Wait until it holds; AssertionError that names what did not come."""
    deadline = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline, f"not within {within_s:g} s: {what}"
        time.sleep(0.02)


NEVER = threading.Event()
"""Never set."""
