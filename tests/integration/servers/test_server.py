"""The life of a server that is one process: its ports are found once and kept, whoever else takes some meanwhile."""

import socket
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from deploy.native.servers import ServerFailed, server
from deploy.native.servers.process import free_ports
from deploy.native.servers.server import Server

LISTENING = "import socket, sys, time; socket.create_server(('127.0.0.1', int(sys.argv[1]))); print('up', flush=True); time.sleep(600)"
BROKEN = "import sys; sys.exit('no such setting')"
pytestmark = pytest.mark.integration


class Listener(Server):
    """Listens on one port and says so."""

    name = "the listener"
    start_s = 60.0

    def __init__(self, folder: Path, port: int = 0, program: str = LISTENING) -> None:
        super().__init__(folder, [port])
        self.program = program
        self.starts = 0

    @property
    def address(self) -> str:
        return str(self._ports[0])

    def _prepare(self) -> Sequence[str]:
        self.starts += 1
        return [sys.executable, "-c", self.program, self.address]

    def _is_ready(self) -> bool:
        return "up" in self.log.read_text(encoding="utf-8")


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that somebody else listens on."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        yield other.getsockname()[1]


def offer(monkeypatch: pytest.MonkeyPatch, *ports: int) -> None:
    """Let the ports that seem free be these, one after the other, and then those that are."""
    offered = list(ports)
    monkeypatch.setattr(server, "free_ports", lambda count: [offered.pop(0)] if offered else free_ports(count))


def test_a_port_that_was_taken_meanwhile_is_replaced_and_then_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, taken: int) -> None:
    offer(monkeypatch, taken)
    listener = Listener(tmp_path / "own")
    listener.start()
    first, pid = listener.address, listener.pid
    assert (listener.starts, first != str(taken), pid is not None) == (2, True, True)
    listener.kill()
    assert listener.pid is None
    listener.start()
    assert (listener.address, listener.starts) == (first, 3)
    listener.stop()
    assert listener.pid is None


def test_there_is_an_end_to_trying(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, taken: int) -> None:
    offer(monkeypatch, *[taken] * 10)
    listener = Listener(tmp_path)
    with pytest.raises(ServerFailed, match="Address already in use"):
        listener.start()
    assert listener.starts == server.TRIES


def test_a_port_that_was_asked_for_is_not_replaced(tmp_path: Path, taken: int) -> None:
    listener = Listener(tmp_path, taken)
    with pytest.raises(ServerFailed, match=r"(?s)the listener ended with 1 while starting.*Address already in use"):
        listener.start()
    assert (listener.address, listener.starts) == (str(taken), 1)


def test_another_failure_is_told_at_once(tmp_path: Path) -> None:
    listener = Listener(tmp_path, program=BROKEN)
    with pytest.raises(ServerFailed, match="no such setting"):
        listener.start()
    assert listener.starts == 1


def test_ending_what_never_began_is_no_error(tmp_path: Path) -> None:
    listener = Listener(tmp_path)
    listener.stop()
    listener.kill()
    assert listener.pid is None
