"""One ZooKeeper out of Flink's own package: where JobManagers agree on who leads and what was running."""

import socket
from pathlib import Path
from typing import Final

from deploy.native.servers.flink_env import ensure, home
from deploy.native.servers.process import find_java
from deploy.native.servers.server import Server

JAVA: Final = 17
TICK_MS: Final = 1000
"""A session may be as short as two ticks, and a dead JobManager leads for as long as its session."""


class ZooKeeper(Server):
    """A node that is a quorum of its own. `port` and the next two are taken."""

    name = "ZooKeeper"
    start_s = 60.0

    def __init__(self, folder: Path, *, port: int) -> None:
        super().__init__(folder, [port, port + 1, port + 2])

    @property
    def address(self) -> str:
        """HOST:PORT for clients."""
        return f"127.0.0.1:{self._ports[0]}"

    def _prepare(self) -> list[str]:
        client, *others = self._ports
        data = self._folder / "data"
        data.mkdir(parents=True, exist_ok=True)
        (data / "myid").write_text("1", encoding="ascii")
        config = self._folder / "zoo.cfg"
        settings = {
            "tickTime": TICK_MS,
            "dataDir": data,
            "clientPort": client,
            "clientPortAddress": "127.0.0.1",
            "admin.enableServer": "false",
            "server.1": f"127.0.0.1:{others[0]}:{others[1]}",
        }
        config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()), encoding="utf-8")
        entry = "org.apache.flink.runtime.zookeeper.FlinkZooKeeperQuorumPeer"
        options = ["-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        return [find_java(JAVA), *options, "-cp", f"{home(ensure()) / 'lib'}/*", entry, "--zkConfigFile", str(config), "--peerId", "1"]

    def _is_ready(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self._ports[0]), timeout=2):
                return True
        except OSError:
            return False
