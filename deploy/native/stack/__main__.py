"""python -m deploy.native.stack up | status | down: the distributed service on this machine (`make stack-up`)."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from deploy.native.servers.process import ServerFailed
from deploy.native.stack import layout as layouts
from deploy.native.stack import life
from deploy.native.stack.interruption import Interrupted, interruptible
from deploy.native.stack.programs import programs
from deploy.native.stack.supervision import ROOT, Supervisor

FOLDER: Final = ROOT / ".stack"


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status: 0 done, 1 failed, 128 and the number of the signal that interrupted it."""
    parser = argparse.ArgumentParser(prog="python -m deploy.native.stack", description="The distributed service on this machine.")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="everything lies below it (default: .stack in the checkout)")
    parser.add_argument("--first-port", type=int, default=0, help=f"first of {len(layouts.PORTS)} neighbouring ports; default: free ones")
    parser.add_argument("what", choices=("up", "status", "down"))
    given = parser.parse_args(arguments)
    try:
        with interruptible():
            return _do(given.what, given.folder, given.first_port)
    except ServerFailed as error:
        _say(str(error))
        return 1
    except Interrupted as request:
        return request.status


def _do(what: str, folder: Path, first_port: int) -> int:
    if what == "status":
        return _status(folder)
    if what == "up":
        print(json.dumps(_addresses(life.up(folder, _say, first_port))))
    else:
        life.down(folder, _say)
    return 0


def _addresses(layout: layouts.Layout) -> dict[str, str]:
    return {
        "api": layout.url("api"),
        "otlp_http": layout.url("otlp_http"),
        "otlp_grpc": layout.at("otlp_grpc"),
        "folder": str(layout.folder),
    }


def _status(folder: Path) -> int:
    layout = layouts.load(folder)
    supervisor = None if layout is None else Supervisor(layout, programs(layout))
    if layout is None or supervisor is None or not supervisor.running:
        _say("nothing runs")
        return 1
    states = supervisor.states()
    print(json.dumps({**_addresses(layout), "programs": states}))
    return 0 if set(states.values()) == {"RUNNING"} else 1


def _say(text: str) -> None:
    # One write: `print` makes two, and an interruption between them would put two messages into one line.
    sys.stderr.write(f"stack: {text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
