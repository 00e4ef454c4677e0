"""A stack of real servers and services that tests start, use, hurt and end."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from deploy.native.servers.flink_rest import Rest
from deploy.native.stack import life
from deploy.native.stack.ending import MARK
from deploy.native.stack.layout import Layout
from deploy.native.stack.programs import READY, programs
from deploy.native.stack.readiness import unready
from deploy.native.stack.run import PID_FILE
from deploy.native.stack.supervision import Supervisor


class Deployed:
    """One stack that is up."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.supervisor = Supervisor(layout, programs(layout))
        self.client = httpx.Client(base_url=layout.url("api"), timeout=30)
        self._flink = Rest(layout.at("flink"))

    @property
    def otlp_url(self) -> str:
        """Base address of the OTLP/HTTP receiver."""
        return self.layout.url("otlp_http")

    def kill(self, name: str) -> None:
        """SIGKILL to a server or service itself, not to what watches it."""
        own = self.layout.folder / name / PID_FILE
        os.kill(int(own.read_text(encoding="ascii")) if own.exists() else self.supervisor.pid(name), signal.SIGKILL)

    def ready(self, *services: str) -> bool:
        """Whether the services say that they are; without a name: every one."""
        ports = [port for name, port in READY.items() if name in services or not services]
        return not any(unready(self.layout.url(port)) for port in ports)

    def jobs(self) -> list[str]:
        """Ids of Flink's jobs of which every task runs; [] while it cannot answer."""
        known = (self._flink.ask("/jobs") or {}).get("jobs", [])
        return [job["id"] for job in known if self._flink.running(job["id"])]

    def items(self, path: str, **parameters: str | int) -> list[dict[str, Any]]:
        """All items of a list; [] while the service cannot answer."""
        found: list[dict[str, Any]] = []
        cursor: str | None = None
        while True:
            query = {"limit": 200, **parameters} | ({"cursor": cursor} if cursor else {})
            try:
                answer = self.client.get(path, params=query)
            except httpx.HTTPError:
                return []
            if answer.status_code != 200:
                return []
            page = answer.json()
            found += page["items"]
            cursor = page["next_cursor"]
            if cursor is None:
                return found

    def close(self) -> None:
        """Close connections to it."""
        self.client.close()


@contextmanager
def deployed(folder: Path) -> Iterator[Deployed]:
    """A stack for the length of the block, or the one that FIRSTFAULT_STACK_FOLDER names, which then stays up."""
    named = os.environ.get(MARK)
    layout = life.up(Path(named) if named else folder, _say)
    stack = Deployed(layout)
    try:
        yield stack
    finally:
        stack.close()
        if not named:
            life.down(folder, _say)


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
