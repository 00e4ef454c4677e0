"""Run one server of a stack in the foreground until it ends or is asked to end: what the supervisor starts, and starts again.

python -m deploy.native.stack.run kafka --folder FOLDER
"""

import argparse
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

from deploy.native.servers.clickhouse import ClickHouse
from deploy.native.servers.elasticsearch import Elasticsearch
from deploy.native.servers.kafka import Kafka
from deploy.native.servers.process import ServerFailed
from deploy.native.servers.zookeeper import ZooKeeper
from deploy.native.stack import layout as layouts
from deploy.native.stack.detection import Detection, JobManager, TaskManager
from deploy.native.stack.interruption import Interrupted, interruptible
from deploy.native.stack.layout import Layout

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


SERVERS: Final[Mapping[str, Callable[[Layout], Server]]] = {
    "kafka": lambda layout: Kafka(layout.folder / "kafka", port=layout.ports["kafka"], heap="384m", quick=False),
    "elasticsearch": lambda layout: Elasticsearch(layout.folder / "elasticsearch", port=layout.ports["elasticsearch"]),
    "clickhouse": lambda layout: ClickHouse(layout.folder / "clickhouse", port=layout.ports["clickhouse"]),
    "zookeeper": lambda layout: ZooKeeper(layout.folder / "zookeeper", port=layout.ports["zookeeper"]),
    "jobmanager": JobManager,
    "taskmanager": TaskManager,
    "detection": Detection,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status: 0 after a request to end, 1 when the server failed or ended by itself."""
    parser = argparse.ArgumentParser(description="Run one server in the foreground; SIGTERM or SIGINT ends it in order.")
    parser.add_argument("name", choices=sorted(SERVERS))
    parser.add_argument("--folder", type=Path, required=True, help="of the stack")
    given = parser.parse_args(arguments)
    layout = layouts.load(given.folder)
    if layout is None:
        parser.error(f"{given.folder} holds no stack")
    server = SERVERS[given.name](layout)
    try:
        with interruptible():
            return _run(given.name, server, layout.folder / given.name)
    except Interrupted:
        # While it starts, too: whoever asks does not wait until it is there.
        server.stop()
        return 0


def _run(name: str, server: Server, own: Path) -> int:
    """Until it ends by itself; exit status."""
    try:
        server.start()
    except ServerFailed as error:
        print(f"{name}: {error}", file=sys.stderr, flush=True)
        return 1
    own.mkdir(exist_ok=True)
    (own / PID_FILE).write_text(str(server.pid), encoding="ascii")
    print(f"{name}: runs", flush=True)
    while server.pid is not None:
        time.sleep(WATCH_S)
    print(f"{name}: ended by itself", file=sys.stderr, flush=True)
    return 1


if __name__ == "__main__":
    sys.exit(main())
