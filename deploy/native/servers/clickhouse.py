"""One ClickHouse server over HTTP (see `deploy/native/clickhouse/serve.py`) in a folder of its own."""

import sys
from pathlib import Path
from typing import Final

from deploy.native.servers.process import Process, ServerFailed, free_ports

SERVE: Final = Path(__file__).parents[1] / "clickhouse" / "serve.py"
START_S: Final = 120.0
TRIES: Final = 3


class ClickHouse:
    """A server that keeps its data and its port over restarts. Account `default`, no password, loopback only."""

    def __init__(self, folder: Path, *, port: int = 0) -> None:
        """`port` 0 takes a free one."""
        self._folder, self._port, self._chosen = folder, port, bool(port)
        self._process: Process | None = None

    @property
    def address(self) -> str:
        """URL for clients."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def pid(self) -> int | None:
        """Process id while it runs."""
        return self._process.pid if self._process is not None and self._process.alive else None

    def start(self) -> None:
        """Return when it answers. Raises ServerFailed."""
        self._folder.mkdir(parents=True, exist_ok=True)
        for left in reversed(range(TRIES)):
            if not self._chosen:
                (self._port,) = free_ports(1)
            try:
                self._start()
            except ServerFailed:
                # Somebody else may take a port between its choice and the start.
                if left and not self._chosen:
                    continue
                raise
            self._chosen = True
            return

    def _start(self) -> None:
        ready = self._folder / "ready"
        ready.unlink(missing_ok=True)
        command = [sys.executable, str(SERVE), "--data", str(self._folder / "data"), "--port", str(self._port), "--ready", str(ready)]
        process = self._process = Process(command, self._folder / "server.log")
        process.wait_until(ready.exists, START_S, "ClickHouse")

    def stop(self) -> None:
        """End in order."""
        if self._process is not None:
            self._process.stop()

    def kill(self) -> None:
        """End at once, as a crash would."""
        if self._process is not None:
            self._process.kill()
