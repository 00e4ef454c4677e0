"""Ports of a stack that cannot be had: which, why, who has them, and what to do."""

import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.native.servers.process import ServerFailed
from deploy.native.stack import __main__ as command
from deploy.native.stack import layout, life
from deploy.native.stack.layout import PORTS
from deploy.native.stack.ports import why_not

ME = f"process {os.getpid()} ("


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """Somebody who listens on loopback, this process."""
    with socket.create_server(("127.0.0.1", 0)) as made:
        yield made


def _port(made: socket.socket) -> int:
    port: int = made.getsockname()[1]
    return port


def test_a_port_that_nobody_has_can_be_had(listener: socket.socket) -> None:
    port = _port(listener)
    with socket.create_connection(("127.0.0.1", port)):
        accepted, _ = listener.accept()
        # Who ends first has the port in the state that a server does not mind.
        accepted.close()
    listener.close()
    assert why_not(port) == ""


@pytest.mark.parametrize(
    ("family", "address"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")]
)  # fmt: skip
def test_who_listens_on_it_is_named(family: socket.AddressFamily, address: str) -> None:
    if family == socket.AF_INET6 and not socket.has_dualstack_ipv6():
        pytest.skip("no IPv6 here")
    with socket.create_server((address, 0), family=family, dualstack_ipv6=family == socket.AF_INET6) as made:
        assert ME in why_not(_port(made))


def test_a_connection_that_has_it_is_named(listener: socket.socket) -> None:
    with socket.create_connection(("127.0.0.1", _port(listener))) as connection:
        assert ME in why_not(_port(connection))


def test_somebody_whom_proc_does_not_show_is_somebody_else(listener: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Path) -> Path:
        raise PermissionError

    monkeypatch.setattr(Path, "readlink", refuse)
    assert "another user" in why_not(_port(listener))


@pytest.mark.parametrize("place", [0, 5, len(PORTS) - 1])
def test_a_first_port_whose_neighbours_are_used_names_them(place: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    free = layout.make(tmp_path / "free").ports
    port = free[PORTS[place]]
    with socket.create_server(("127.0.0.1", port)):
        assert command.main(["--folder", str(tmp_path / "stack"), "--first-port", str(free[PORTS[0]]), "up"]) == 1
    said = capsys.readouterr().err
    assert f"port {port} (for {PORTS[place].replace('_', ' ')}) is in use by {ME}" in said
    assert "name another first one" in said
    assert len(said.splitlines()) == 1
    assert not (tmp_path / "stack").exists()


@pytest.mark.parametrize("first", [-1, 65_535, 65_520, 70_000])
def test_a_first_port_without_room_is_refused(first: int, tmp_path: Path) -> None:
    with pytest.raises(ServerFailed, match="from 1 to 65519"):
        layout.make(tmp_path / "stack", first)


def test_a_stack_keeps_its_ports_and_says_so(tmp_path: Path) -> None:
    made = layout.make(tmp_path / "stack")
    first = made.ports[PORTS[0]]
    assert layout.make(tmp_path / "stack", first) == layout.make(tmp_path / "stack") == made
    with pytest.raises(ServerFailed, match=f"from {first} on"):
        layout.make(tmp_path / "stack", first + 1)


def test_a_stack_at_rest_whose_port_somebody_took_is_not_started(listener: socket.socket, tmp_path: Path) -> None:
    made = layout.make(tmp_path / "stack")
    file = made.folder / layout.FILE
    kept = json.loads(file.read_text())
    kept["ports"]["api"] = _port(listener)
    file.write_text(json.dumps(kept))
    with pytest.raises(ServerFailed, match=rf"port {_port(listener)} \(for api\) is in use by process {os.getpid()} .*`down`"):
        life.up(made.folder, lambda _: None)
    assert made.folder.exists()
