"""One ZooKeeper out of Flink's own package: where JobManagers agree on who leads and what was running."""

import socket
from pathlib import Path
from typing import Final

from deploy.native.servers.flink_env import ensure, home
from deploy.native.servers.process import Process, find_java

JAVA: Final = 17
START_S: Final = 60.0
TICK_MS: Final = 1000
"""A session may be as short as two ticks, and a dead JobManager leads for as long as its session."""


class ZooKeeper:
    """A node that keeps its data over restarts. `port` and the next two are taken."""

    def __init__(self, folder: Path, *, port: int) -> None:
        self._folder, self._port = folder, port
        self._process: Process | None = None

    @property
    def address(self) -> str:
        """HOST:PORT for clients."""
        return f"127.0.0.1:{self._port}"

    @property
    def pid(self) -> int | None:
        """Process id while it runs."""
        return self._process.pid if self._process is not None and self._process.alive else None

    def start(self) -> None:
        """Return when it answers. Raises ServerFailed."""
        data = self._folder / "data"
        data.mkdir(parents=True, exist_ok=True)
        (data / "myid").write_text("1", encoding="ascii")
        config = self._folder / "zoo.cfg"
        settings = {
            "tickTime": TICK_MS,
            "dataDir": data,
            "clientPort": self._port,
            "clientPortAddress": "127.0.0.1",
            "admin.enableServer": "false",
            "server.1": f"127.0.0.1:{self._port + 1}:{self._port + 2}",
        }
        config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()), encoding="utf-8")
        entry = "org.apache.flink.runtime.zookeeper.FlinkZooKeeperQuorumPeer"
        options = ["-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        command = [find_java(JAVA), *options, "-cp", f"{home(ensure()) / 'lib'}/*", entry, "--zkConfigFile", str(config), "--peerId", "1"]
        process = self._process = Process(command, self._folder / "server.log")
        process.wait_until(self._answers, START_S, "ZooKeeper")

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self._port), timeout=2):
                return True
        except OSError:
            return False

    def stop(self) -> None:
        """End it in order."""
        if self._process is not None:
            self._process.stop()

    def kill(self) -> None:
        """End it at once, as a crash would."""
        if self._process is not None:
            self._process.kill()
