"""The end of a stack, or of what one interrupted start of it has begun: in order for as long as that takes, then for certain."""

import os
import shutil
import signal
import time
import xmlrpc.client
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

from deploy.native.servers.process import ServerFailed
from deploy.native.stack.layout import Layout
from deploy.native.stack.supervision import Supervisor

MARK: Final = "FIRSTFAULT_STACK_FOLDER"
"""Environment variable of every process of a stack, by which none of them is overlooked at the end."""
IN_ORDER_S: Final = 15.0
"""After an interruption people wait for the end; servers stand being killed."""
DEAD_S: Final = 10.0


def end(layout: Layout, supervisor: Supervisor) -> list[int]:
    """End everything in order; what was left over then and had to be killed. Raises ServerFailed."""
    supervisor.shut_down()
    return _kill_left(layout)


def take_back(layout: Layout, supervisor: Supervisor, begun: Collection[str], *, whole: bool, made: bool) -> None:
    """End the programs that a start has begun; `whole`: nothing ran before it; `made`: the folder is its own, too."""
    try:
        ended = supervisor.halt_all(begun, IN_ORDER_S)
        if whole and ended:
            supervisor.shut_down()
    except (OSError, xmlrpc.client.Error, ServerFailed):
        # It may have been interrupted before the supervisor answered, and what does not end in order is killed.
        pass
    if whole:
        _kill_left(layout)
    if made:
        shutil.rmtree(layout.folder)


def _kill_left(layout: Layout) -> list[int]:
    """Kill until none is left: what is killed may have been starting another. Raises ServerFailed."""
    killed: list[int] = []
    deadline = time.monotonic() + DEAD_S
    while left := list(_left(layout)):
        if time.monotonic() > deadline:
            raise ServerFailed(f"processes {', '.join(map(str, left))} do not end; end them by hand, then remove {layout.folder}")
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
            killed.append(pid)
        time.sleep(0.02)
    return sorted(set(killed))


def _left(layout: Layout) -> Iterator[int]:
    mark = f"{MARK}={layout.folder}".encode()
    own = set(_ancestors(os.getpid()))
    for place in Path("/proc").glob("[0-9]*"):
        try:
            # Empty for a process that has ended and waits for its parent only.
            marked = mark in (place / "environ").read_bytes().split(b"\0")
        except OSError:
            # Gone in the meantime, or somebody else's.
            continue
        if marked and int(place.name) not in own:
            yield int(place.name)


def _ancestors(pid: int) -> Iterator[int]:
    """A process and those that started it: a shell in which the mark was set is no process of the stack, nor is a container's first."""
    while pid > 0:
        yield pid
        pid = int(Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[1])
