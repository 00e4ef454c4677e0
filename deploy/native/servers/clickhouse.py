"""One ClickHouse server over HTTP (see `deploy/native/clickhouse/serve.py`) in a folder of its own."""

import sys
from pathlib import Path
from typing import Final

from deploy.native.servers.server import Server

SERVE: Final = Path(__file__).parents[1] / "clickhouse" / "serve.py"


class ClickHouse(Server):
    """A server. Account `default`, no password, loopback only."""

    name = "ClickHouse"
    start_s = 120.0
    # It says so in many ways.
    port_taken = ""

    def __init__(self, folder: Path, *, port: int = 0) -> None:
        """`port` 0 takes a free one."""
        super().__init__(folder, [port])

    @property
    def address(self) -> str:
        """URL for clients."""
        return f"http://127.0.0.1:{self._ports[0]}"

    @property
    def _ready(self) -> Path:
        return self._folder / "ready"

    def _prepare(self) -> list[str]:
        self._ready.unlink(missing_ok=True)
        data, port = str(self._folder / "data"), str(self._ports[0])
        return [sys.executable, str(SERVE), "--data", data, "--port", port, "--ready", str(self._ready)]

    def _is_ready(self) -> bool:
        return self._ready.exists()
