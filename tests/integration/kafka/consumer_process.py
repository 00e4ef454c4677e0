"""A member of a consumer group that writes down what it has handled, one line a record, until it is killed."""

import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from prometheus_client import CollectorRegistry

from firstfault_server.adapters.kafka import Connection, ConsumerLoop, GroupConsumer, Take
from firstfault_server.telemetry import ConsumingMetrics
from firstfault_server.wire.incoming import TopicRecord
from firstfault_server.wire.outputs import EVENTS


def main() -> None:
    """Arguments: bootstrap, prefix, file."""
    bootstrap, prefix, path = sys.argv[1:]
    pause = threading.Event()
    with Path(path).open("a") as handled:

        def handle(records: Sequence[TopicRecord]) -> None:
            for record in records:
                (event,) = record.contents()
                handled.write(f"{event.id}\n")
            handled.flush()
            # Slow enough to be killed in the midst of it.
            pause.wait(0.02)

        def consume() -> GroupConsumer:
            return GroupConsumer(Connection(bootstrap=bootstrap), prefix, [EVENTS], "test", Take(records=5))

        loop = ConsumerLoop("test", consume, handle, ConsumingMetrics(CollectorRegistry()))
        loop.start()
        sys.stdin.read()
        loop.stop(10)


if __name__ == "__main__":
    main()
