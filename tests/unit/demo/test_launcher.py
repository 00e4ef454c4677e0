"""The launcher gives ranks their place, stops the others when one fails, and passes statuses on."""

import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from firstfault_server.demo.launcher import Ranks, main

SLEEP = "import time; time.sleep(60)"


def ranks(code: str, count: int, folder: Path) -> Ranks:
    """Ranks that run a line of Python."""
    return Ranks([sys.executable, "-c", f"import os, sys\nrank = int(os.environ['RANK'])\n{code}"], count, folder, os.environ)


def test_each_rank_knows_its_place_and_has_its_own_files(tmp_path: Path) -> None:
    code = "import json; print(json.dumps({k: os.environ[k] for k in ('RANK', 'LOCAL_RANK', 'WORLD_SIZE', 'MASTER_ADDR')}))"
    started = ranks(f"{code}; print('oops', rank, file=sys.stderr)", 2, tmp_path / "out")
    assert started.watch(timeout_s=60) == [0, 0]
    for rank in range(2):
        said = json.loads(started.output(rank).read_text())
        assert said == {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}
        assert started.errors(rank).read_text() == f"oops {rank}\n"


def test_a_failure_stops_the_others(tmp_path: Path) -> None:
    started = ranks(f"if rank == 1: sys.exit(3)\n{SLEEP}", 3, tmp_path)
    began = time.monotonic()
    assert started.watch(timeout_s=60) == [-signal.SIGTERM, 3, -signal.SIGTERM]
    assert time.monotonic() - began < 30


def test_grace_lets_the_others_finish(tmp_path: Path) -> None:
    code = "import time\nif rank == 0: sys.exit(3)\ntime.sleep(0.3); sys.exit(4)"
    assert ranks(code, 2, tmp_path).watch(grace_s=50, timeout_s=60) == [3, 4]


def test_a_rank_that_ignores_sigterm_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("firstfault_server.demo.launcher._KILL_AFTER_S", 0.2)
    ready = tmp_path / "ready"
    code = f"import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nopen({str(ready)!r}, 'w').close()\ntime.sleep(60)"
    started = ranks(code, 1, tmp_path)
    deadline = time.monotonic() + 30
    while not ready.exists() and time.monotonic() < deadline:
        started.watch(timeout_s=0.05)
    started.stop()
    assert started.codes() == [-signal.SIGKILL]


@pytest.mark.parametrize(("code", "status"), [("pass", 0), ("import sys; sys.exit(7)", 7), ("import os; os.kill(os.getpid(), 9)", 137)])
def test_status_of_the_whole(code: str, status: int, tmp_path: Path) -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        assert main(["--ranks=1", f"--folder={tmp_path}", "--", sys.executable, "-c", code]) == status
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
