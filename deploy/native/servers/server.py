"""One server that is one process in a folder of its own: its ports, its start, its end."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Final

from deploy.native.servers.process import Process, ServerFailed, free_ports

TRIES: Final = 3


class Server(ABC):
    """A server that keeps its data and its ports over restarts."""

    name: ClassVar[str]
    """For messages."""
    start_s: ClassVar[float]
    """It is ready within this, or has failed."""
    port_taken: ClassVar[str] = "Address already in use"
    """What its failure says when somebody else took a port between its choice and the start; empty: it says nothing that tells."""

    def __init__(self, folder: Path, ports: Sequence[int]) -> None:
        """Ports that are 0 are chosen at the first start that succeeds, all or none."""
        self._folder, self._ports = folder, list(ports)
        self._chosen = all(ports)
        self._process: Process | None = None

    @property
    @abstractmethod
    def address(self) -> str:
        """Where clients find it."""

    @property
    def pid(self) -> int | None:
        """Process id while it runs."""
        return self._process.pid if self._process is not None and self._process.alive else None

    @property
    def log(self) -> Path:
        """What it says."""
        return self._folder / "server.log"

    def start(self) -> None:
        """Return when it takes requests. Raises ServerFailed."""
        self._folder.mkdir(parents=True, exist_ok=True)
        for left in reversed(range(TRIES)):
            if not self._chosen:
                self._ports = free_ports(len(self._ports))
            try:
                process = self._process = Process(self._prepare(), self.log)
                process.wait_until(self._is_ready, self.start_s, self.name)
            except ServerFailed as error:
                if left and not self._chosen and self.port_taken in str(error):
                    continue
                raise
            self._chosen = True
            return

    @abstractmethod
    def _prepare(self) -> Sequence[str]:
        """Write what it reads at the start; the command that starts it on the ports of now. Raises ServerFailed."""

    @abstractmethod
    def _is_ready(self) -> bool:
        """Whether it takes requests."""

    def stop(self) -> None:
        """End in order."""
        if self._process is not None:
            self._process.stop()

    def kill(self) -> None:
        """End at once, as a crash would."""
        if self._process is not None:
            self._process.kill()
