"""The service as a process that a test kills and starts again on the same ports and data."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

import httpx

from firstfault_server.cli.child import ChildService

ANY = ("127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0")


class RunningService:
    """`firstfault up`; after a kill it comes back under the same addresses."""

    def __init__(self, data: Path, environ: Mapping[str, str]) -> None:
        self._data, self._environ = data, dict(environ)
        self._child = ChildService(data, ANY, self._environ)
        self._addresses = (urlsplit(self._child.api_url).netloc, urlsplit(self._child.otlp_url).netloc, "127.0.0.1:0")
        self.client = httpx.Client(base_url=self._child.api_url, timeout=30)

    @property
    def otlp_url(self) -> str:
        """Base address of the OTLP/HTTP receiver."""
        return self._child.otlp_url

    def kill(self) -> None:
        """SIGKILL, and wait until the process is gone."""
        self._child.kill()

    def start(self) -> None:
        """Start again where it was killed."""
        self._child = ChildService(self._data, self._addresses, self._environ)

    def stop(self) -> int:
        """SIGTERM; returns the exit status."""
        self.client.close()
        return self._child.stop()

    def items(self, path: str, **parameters: str | int) -> list[dict[str, Any]]:
        """All items of a list, page by page."""
        found: list[dict[str, Any]] = []
        cursor: str | None = None
        while True:
            query = {"limit": 200, **parameters} | ({"cursor": cursor} if cursor else {})
            answer = self.client.get(path, params=query)
            answer.raise_for_status()
            page = answer.json()
            found += page["items"]
            cursor = page["next_cursor"]
            if cursor is None:
                return found

    def __enter__(self) -> "RunningService":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()


def wait_for(holds: Callable[[], bool], within_s: float, what: str) -> None:
    """Wait until it holds; AssertionError that names what did not come."""
    deadline = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline, f"not within {within_s:g} s: {what}"
        time.sleep(0.1)
