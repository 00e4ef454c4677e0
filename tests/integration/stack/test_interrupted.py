"""A start of the stack that is interrupted ends what it has begun, says so in one line, and nothing else."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import pytest

from deploy.native.stack.ending import MARK
from deploy.native.stack.supervision import ROOT
from tests.integration.service.running import wait_for

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]

Moment = Callable[[Path, list[str]], bool]


def _made(folder: Path, _said: list[str]) -> bool:
    return (folder / "stack.json").exists()


def _supervised(folder: Path, _said: list[str]) -> bool:
    return (folder / "supervisord.pid").exists()


def _servers(_folder: Path, said: list[str]) -> bool:
    return any("starting kafka" in line for line in said)


def _of(folder: Path) -> list[str]:
    """Processes of a stack."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            marked = f"{MARK}={folder}".encode() in (place / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        found += [place.name] if marked else []
    return found


def _listen(stream: IO[str], said: list[str]) -> None:
    said.extend(stream)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Where a stack is started; one that was not ended is, so that it costs no other test."""
    place = tmp_path / "stack"
    yield place
    if _of(place):
        subprocess.run([sys.executable, "-m", "deploy.native.stack", "--folder", str(place), "down"], cwd=ROOT, check=True, timeout=120)


@pytest.mark.parametrize("moment", [_made, _supervised, _servers])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_an_interrupted_start_leaves_nothing(number: signal.Signals, moment: Moment, folder: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != MARK}
    said: list[str] = []
    with subprocess.Popen(
        [sys.executable, "-m", "deploy.native.stack", "--folder", str(folder), "up"],
        cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True,
    ) as started:  # fmt: skip
        assert started.stderr is not None
        listener = threading.Thread(target=_listen, args=(started.stderr, said))
        listener.start()
        wait_for(lambda: moment(folder, said), 60, "the moment of the interruption")
        # To the whole group, as a terminal does it.
        os.killpg(started.pid, number)
        assert started.wait(60) == 128 + number
        listener.join(10)
    told = [line for line in said if "starting kafka" not in line]
    assert told == [f"stack: interrupted by {number.name}: ending what was begun\n"]
    assert _of(folder) == []
    assert not folder.exists()
