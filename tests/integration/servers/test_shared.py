"""One server for several processes: started once, ended with its last user, however that one ended."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from deploy.native.servers import ServerFailed
from deploy.native.servers.shared import ROOT, shared

KEEPER = "tests.integration.servers.standin"
DEADLINE_S = 60.0
pytestmark = pytest.mark.integration


def user(folder: Path) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "tests.integration.servers.user", str(folder)]
    return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def address_of(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def wait_until_ended(folder: Path) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while (folder / "server").exists() or (folder / "address").exists():
        assert time.monotonic() < deadline, "the server is still there"
        time.sleep(0.01)


def starts(folder: Path) -> int:
    return len((folder / "starts").read_text().splitlines())


def test_users_at_once_share_one_server_that_ends_with_the_last(tmp_path: Path) -> None:
    users = [user(tmp_path) for _ in range(3)]
    addresses = {address_of(each) for each in users}
    assert len(addresses) == 1
    assert starts(tmp_path) == 1
    for each in users[:2]:
        each.communicate()
    with shared("stand-in", tmp_path, keeper=KEEPER) as address:
        assert {address} == addresses
    users[2].communicate()
    wait_until_ended(tmp_path)
    assert (tmp_path / "stopped").exists()


def test_a_killed_user_leaves_no_server_behind(tmp_path: Path) -> None:
    process = user(tmp_path)
    assert address_of(process)
    process.kill()
    process.communicate()
    wait_until_ended(tmp_path)


def test_the_next_user_after_the_end_gets_a_new_server(tmp_path: Path) -> None:
    seen = set()
    for _ in range(3):
        with shared("stand-in", tmp_path, keeper=KEEPER) as address:
            seen.add(address)
            assert (tmp_path / "server").exists()
    assert len(seen) == starts(tmp_path)
    wait_until_ended(tmp_path)


def test_a_server_that_does_not_start_is_an_error_with_its_reason(tmp_path: Path) -> None:
    (tmp_path / "broken").touch()
    with pytest.raises(ServerFailed, match="it is broken"), shared("stand-in", tmp_path, keeper=KEEPER):
        pass
    (tmp_path / "broken").unlink()
    with shared("stand-in", tmp_path, keeper=KEEPER):
        assert starts(tmp_path) == 1
    wait_until_ended(tmp_path)
