"""One Kafka node (KRaft: broker and controller in one process) in a folder of its own."""

import base64
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from deploy.native.servers.jars import fetch
from deploy.native.servers.process import ServerFailed, find_java
from deploy.native.servers.server import Server

JAVA: Final = 17
READY: Final = "Kafka Server started"
LOGGING: Final = Path(__file__).with_name("kafka-log4j2.properties")
JVM: Final = ("-Djava.awt.headless=true", "-XX:+ExitOnOutOfMemoryError", "-XX:MaxDirectMemorySize=128m")
QUICK: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""Half the processor time at the start; slower after a minute of full load."""
STEADY: Final = ("-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20")
MECHANISM: Final = "SCRAM-SHA-256"
LOGIN: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
PROPERTIES: Final = {
    "process.roles": "broker,controller",
    "node.id": 1,
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "auto.create.topics.enable": "false",
    # There is one node only, and the default of 50 partitions for an internal topic is for large clusters.
    "offsets.topic.replication.factor": 1,
    "offsets.topic.num.partitions": 4,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "transaction.state.log.num.partitions": 4,
    "share.coordinator.state.topic.replication.factor": 1,
    "share.coordinator.state.topic.min.isr": 1,
    "share.coordinator.state.topic.num.partitions": 2,
    "group.initial.rebalance.delay.ms": 0,
    "transaction.max.timeout.ms": 900_000,
    # Until this has passed the controller refuses a node that was killed and comes back.
    "broker.session.timeout.ms": 2000,
    "broker.heartbeat.interval.ms": 500,
    # The default takes 128 MB of a heap that is not much larger.
    "log.cleaner.dedupe.buffer.size": 16 << 20,
    "num.network.threads": 2,
    "num.io.threads": 4,
    "background.threads": 4,
    "log.segment.bytes": 128 << 20,
    "log.retention.check.interval.ms": 30_000,
}


class Kafka(Server):
    """A node: broker and controller."""

    name = "Kafka"
    start_s = 120.0

    def __init__(
        self, folder: Path, *, port: int = 0, heap: str = "256m", quick: bool = True, accounts: Mapping[str, str] | None = None
    ) -> None:
        """`port` 0 takes free ones; otherwise the controller listens on the next port. `quick` starts faster and runs slower.

        `accounts`: passwords by user, for a further listener that lets nobody else in.
        """
        count = 3 if accounts else 2
        super().__init__(folder, range(port, port + count) if port else [0] * count)
        self._heap, self._quick, self._accounts = heap, quick, dict(accounts or {})

    @property
    def address(self) -> str:
        """HOST:PORT for clients."""
        return f"127.0.0.1:{self._ports[0]}"

    @property
    def guarded_address(self) -> str:
        """HOST:PORT for clients with an account: SASL_PLAINTEXT, SCRAM-SHA-256."""
        return f"127.0.0.1:{self._ports[2]}"

    def _prepare(self) -> list[str]:
        jars = fetch("kafka")
        config = self._folder / "server.properties"
        config.write_text("".join(f"{key}={value}\n" for key, value in self._properties().items()), encoding="utf-8")
        if not (self._folder / "data" / "meta.properties").exists():
            self._format(jars, config)
        options = [*JVM, *(QUICK if self._quick else STEADY), "-Xms64m", f"-Xmx{self._heap}"]
        return [*_java(jars, *options), "kafka.Kafka", str(config)]

    def _is_ready(self) -> bool:
        return READY in self.log.read_text(encoding="utf-8", errors="replace")

    def _properties(self) -> dict[str, object]:
        client, controller = (f"127.0.0.1:{port}" for port in self._ports[:2])
        own = {
            "listeners": f"PLAINTEXT://{client},CONTROLLER://{controller}",
            "advertised.listeners": f"PLAINTEXT://{client}",
            "controller.quorum.bootstrap.servers": controller,
            "log.dirs": self._folder / "data",
        }
        return PROPERTIES | own | (self._guarded(own) if self._accounts else {})

    def _guarded(self, own: Mapping[str, object]) -> dict[str, object]:
        listener = f"GUARDED://{self.guarded_address}"
        return {
            "listeners": f"{own['listeners']},{listener}",
            "advertised.listeners": f"{own['advertised.listeners']},{listener}",
            "listener.security.protocol.map": f"{PROPERTIES['listener.security.protocol.map']},GUARDED:SASL_PLAINTEXT",
            "listener.name.guarded.sasl.enabled.mechanisms": MECHANISM,
            f"listener.name.guarded.{MECHANISM.lower()}.sasl.jaas.config": f"{LOGIN} required;",
        }

    def _format(self, jars: Path, config: Path) -> None:
        # A leading "-" would be read as an option.
        identity = base64.urlsafe_b64encode(b"\0" + os.urandom(15)).rstrip(b"=").decode()
        command = [*_java(jars, *QUICK, "-Xmx128m", "-Dlog4j2.level=WARN"), "kafka.tools.StorageTool", "format"]
        command += ["--cluster-id", identity, "--config", str(config), "--standalone"]
        for user, password in self._accounts.items():
            command += ["--add-scram", f"{MECHANISM}=[name={user},password={password}]"]
        done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
        if done.returncode != 0:
            raise ServerFailed(f"Kafka's data folder could not be formatted:\n{(done.stdout + done.stderr)[-2000:]}")


def _java(jars: Path, *options: str) -> list[str]:
    return [find_java(JAVA), *options, f"-Dlog4j2.configurationFile={LOGGING}", "-cp", f"{jars}/*"]
