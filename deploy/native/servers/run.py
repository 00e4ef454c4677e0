"""Run one server in the foreground until it ends or is asked to end: what a supervisor starts and starts again.

python -m deploy.native.servers.run kafka FOLDER --port 19092
"""

import argparse
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

from deploy.native.servers.clickhouse import ClickHouse
from deploy.native.servers.elasticsearch import Elasticsearch
from deploy.native.servers.kafka import Kafka
from deploy.native.servers.process import ServerFailed

PID_FILE: Final = "server.pid"
WATCH_S: Final = 0.2


class Server(Protocol):
    """What can be run."""

    @property
    def pid(self) -> int | None:
        """Process id while it runs."""

    def start(self) -> None:
        """Return when it answers."""

    def stop(self) -> None:
        """End it in order."""


SERVERS: Final[Mapping[str, Callable[[Path, int], Server]]] = {
    "kafka": lambda folder, port: Kafka(folder, port=port, heap="384m", quick=False),
    "elasticsearch": lambda folder, port: Elasticsearch(folder, port=port),
    "clickhouse": lambda folder, port: ClickHouse(folder, port=port),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status: 0 after a request to end, 1 when the server failed or ended by itself."""
    parser = argparse.ArgumentParser(description="Run one server in the foreground; SIGTERM or SIGINT ends it in order.")
    parser.add_argument("kind", choices=sorted(SERVERS))
    parser.add_argument("folder", type=Path, help="its data, configuration and logs; made if missing")
    parser.add_argument("--port", type=int, required=True)
    given = parser.parse_args(arguments)
    signals = {signal.SIGTERM, signal.SIGINT}
    server = SERVERS[given.kind](given.folder, given.port)
    # Children must not inherit a mask that would make them deaf to the same signals.
    asked: list[int] = []
    for number in signals:
        signal.signal(number, lambda number, _frame: asked.append(number))
    try:
        server.start()
    except ServerFailed as error:
        print(f"{given.kind}: {error}", file=sys.stderr, flush=True)
        return 1
    (given.folder / PID_FILE).write_text(str(server.pid), encoding="ascii")
    print(f"{given.kind}: answers on port {given.port}", flush=True)
    while not asked and server.pid is not None:
        signal.sigtimedwait(set(), WATCH_S)
    if server.pid is None:
        print(f"{given.kind}: ended by itself", file=sys.stderr, flush=True)
        return 1
    server.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
