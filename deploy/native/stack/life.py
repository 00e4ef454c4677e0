"""Brings a stack up until everything answers, and down until nothing is left."""

import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from deploy.native.servers.flink_rest import Rest
from deploy.native.servers.process import ServerFailed
from deploy.native.stack import layout as layouts
from deploy.native.stack.ending import MARK, end, take_back
from deploy.native.stack.interruption import Interrupted
from deploy.native.stack.layout import Layout
from deploy.native.stack.ports import taken
from deploy.native.stack.programs import DETECTION, READY, SERVERS, SERVICES, programs
from deploy.native.stack.readiness import unready
from deploy.native.stack.supervision import UNDER_WAY, Supervisor

MIGRATE_S: Final = 240
READY_S: Final = 300.0
THRESHOLDS: Final = '{"pause_floor_s": 15, "hang_confirm_s": 30, "hang_confirm_blind_s": 30}'
"""Unless FIRSTFAULT_THRESHOLDS says otherwise: a hang is shown within a minute, and a busy machine does not look like one."""

Say = Callable[[str], None]


def up(folder: Path, say: Say, first_port: int = 0) -> Layout:
    """Return when every server and service answers; what runs already is left alone. Raises ServerFailed.

    Interrupted, it ends what it has begun; a folder that it has made goes, too.
    """
    made = layouts.load(folder) is None
    layout = layouts.make(folder, first_port)
    supervisor = Supervisor(layout, programs(layout))
    whole = made or not supervisor.running
    if whole and not made and (problem := taken(layout.ports)):
        raise ServerFailed(f"{problem}. End what uses it, or give the stack other ports: `down`, which removes what it keeps, then `up`")
    begun: list[str] = []
    try:
        _bring_up(layout, supervisor, begun, say)
    except Interrupted as request:
        kept = "" if made else f"; what it holds stays in {layout.folder}"
        say(f"interrupted by {request}: ending what was begun{kept}")
        take_back(layout, supervisor, begun, whole=whole, made=made)
        raise
    return layout


def _bring_up(layout: Layout, supervisor: Supervisor, begun: list[str], say: Say) -> None:
    """`begun` gets the names of the programs that were started."""
    environment = {"FIRSTFAULT_THRESHOLDS": THRESHOLDS, **layout.environment(), MARK: str(layout.folder)}
    supervisor.start(environment)

    def run(*names: str) -> None:
        for name in names:
            if supervisor.states()[name] not in UNDER_WAY:
                begun.append(name)
                supervisor.run(name)

    run(*SERVERS)
    say(f"starting {', '.join(SERVERS)}; the first time they are fetched, which takes minutes")
    _migrate(environment, supervisor)
    run(DETECTION, *SERVICES)
    say(f"starting {', '.join((DETECTION, *SERVICES))}")
    for name, port in READY.items():
        _wait(partial(unready, layout.url(port)), name, supervisor)
    _wait(lambda: _detecting(layout), DETECTION, supervisor)


def down(folder: Path, say: Say) -> None:
    """End everything and remove the folder. Raises ServerFailed."""
    layout = layouts.load(folder)
    if layout is None:
        if folder.exists():
            raise ServerFailed(f"{folder} holds no stack; it is left alone")
        return
    try:
        for pid in end(layout, Supervisor(layout, programs(layout))):
            say(f"process {pid} was left over and was killed")
        shutil.rmtree(layout.folder)
    except Interrupted as request:
        say(f"interrupted by {request}: some of it may still run; `down` can be given again")
        raise


def _migrate(environment: dict[str, str], supervisor: Supervisor) -> None:
    command = [str(Path(sys.executable).with_name("firstfault")), "migrate", "--wait", str(MIGRATE_S)]
    done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        logs = "\n".join(f"{name}: {supervisor.log(name)}" for name in SERVERS)
        raise ServerFailed(f"the servers could not be prepared:\n{done.stderr[-2000:]}\n{logs}")


def _wait(problem: Callable[[], str], name: str, supervisor: Supervisor) -> None:
    deadline = time.monotonic() + READY_S
    while why := problem():
        if time.monotonic() > deadline:
            raise ServerFailed(f"{name} is not ready after {READY_S:.0f} s: {why}\n{supervisor.log(name)}")
        time.sleep(0.2)


def _detecting(layout: Layout) -> str:
    """Why no job works on the input, empty when one does."""
    rest = Rest(layout.at("flink"))
    jobs = (rest.ask("/jobs") or {}).get("jobs", [])
    return "" if any(rest.running(job["id"]) for job in jobs) else f"Flink's jobs: {jobs}"
