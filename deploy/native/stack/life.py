"""Brings a stack up until everything answers, and down until nothing is left."""

import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from deploy.native.servers.process import ServerFailed
from deploy.native.stack import layout as layouts
from deploy.native.stack.layout import Layout
from deploy.native.stack.programs import READY, SERVERS, SERVICES, programs
from deploy.native.stack.supervision import Supervisor

MIGRATE_S: Final = 240
READY_S: Final = 180.0
MARK: Final = "FIRSTFAULT_STACK_FOLDER"
"""Environment variable of every process of a stack, by which none of them is overlooked at the end."""

Say = Callable[[str], None]


def up(folder: Path, say: Say, first_port: int = 0) -> Layout:
    """Return when every server and service answers; what runs already is left alone. Raises ServerFailed."""
    layout = layouts.make(folder, first_port)
    supervisor = Supervisor(layout, programs(layout))
    environment = layout.environment() | {MARK: str(layout.folder)}
    supervisor.start(environment)
    for name in SERVERS:
        supervisor.run(name)
    say(f"starting {', '.join(SERVERS)}; the first time they are fetched, which takes minutes")
    _migrate(environment, supervisor)
    for name in SERVICES:
        supervisor.run(name)
    say(f"starting {', '.join(SERVICES)}")
    for name, port in READY.items():
        _wait(f"{layout.url(port)}/readyz", name, supervisor)
    return layout


def down(folder: Path, say: Say) -> None:
    """End everything and remove the folder. Raises ServerFailed."""
    layout = layouts.load(folder)
    if layout is None:
        if folder.exists():
            raise ServerFailed(f"{folder} holds no stack; it is left alone")
        return
    Supervisor(layout, programs(layout)).shut_down()
    for pid in _left(layout):
        say(f"process {pid} was left over and is killed")
        os.kill(pid, signal.SIGKILL)
    shutil.rmtree(layout.folder)


def _migrate(environment: dict[str, str], supervisor: Supervisor) -> None:
    command = [str(Path(sys.executable).with_name("firstfault")), "migrate", "--wait", str(MIGRATE_S)]
    done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        logs = "\n".join(f"{name}: {supervisor.log(name)}" for name in SERVERS)
        raise ServerFailed(f"the servers could not be prepared:\n{done.stderr[-2000:]}\n{logs}")


def _wait(url: str, name: str, supervisor: Supervisor) -> None:
    deadline = time.monotonic() + READY_S
    answer = "no answer"
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except urllib.error.HTTPError as error:
            answer = f"{error.code} {error.read().decode(errors='replace')[:500]}"
        except OSError as error:
            answer = str(error)
        time.sleep(0.2)
    raise ServerFailed(f"{name} is not ready after {READY_S:.0f} s: {answer}\n{supervisor.log(name)}")


def _left(layout: Layout) -> Iterator[int]:
    mark = f"{MARK}={layout.folder}".encode()
    for place in Path("/proc").glob("[0-9]*"):
        try:
            marked = mark in (place / "environ").read_bytes().split(b"\0")
        except OSError:
            # Gone in the meantime, or somebody else's.
            continue
        if marked and int(place.name) != os.getpid():
            yield int(place.name)
