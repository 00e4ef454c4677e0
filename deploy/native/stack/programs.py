"""What a stack runs, in the order in which it starts."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from deploy.native.stack.layout import Layout
from deploy.native.stack.supervision import Program

SERVERS: Final = ("kafka", "elasticsearch", "clickhouse", "zookeeper", "jobmanager", "taskmanager")
SERVICES: Final = ("ingest", "writer", "alerter", "api")
DETECTION: Final = "detection"
"""Gives the job to Flink once there are topics for it."""
READY: Final = {name: name for name in SERVICES}
"""Service -> the port on which it answers `/readyz`."""


def programs(layout: Layout) -> Sequence[Program]:
    """Servers first, then what uses them."""
    command = str(Path(sys.executable).with_name("firstfault"))
    servers = [Program(name=name, command=_server(layout, name), stop_s=40) for name in (*SERVERS, DETECTION)]
    services = [Program(name=name, command=[command, "serve", name]) for name in SERVICES]
    return [*servers, *services]


def _server(layout: Layout, name: str) -> list[str]:
    return [sys.executable, "-m", "deploy.native.stack.run", name, "--folder", str(layout.folder)]
