"""A process that ends before OpenTelemetry is imported (real processes): its report arrives, and its end waits for no import."""

import os
from pathlib import Path

import pytest

from tests.unit.sdk.jobs import environment, run
from tests.unit.sdk.receiver import receiver

pytestmark = pytest.mark.integration

EXIT_DELAY_S = 2.0
"""Contract: the end of the job is delayed by so much at most."""
_IMPORT_S = 60

ENDS = {
    "clean": ("", 0, "finished"),
    "crash": ("raise RuntimeError('shape mismatch')", 1, "failed"),
    "sys_exit": ("import sys; sys.exit(3)", 3, "failed"),
    "thread": ("import threading; threading.Thread(target=lambda: firstfault.event('thread')).start()", 0, "finished"),
    "flush_at_exit": ("import atexit; atexit.register(lambda: firstfault.flush(20))", 0, "finished"),
}


def _slow_import(folder: Path, endpoint: str, **more: str) -> dict[str, str]:
    """An environment in which OpenTelemetry comes from a very slow disk."""
    package = folder / "slow" / "opentelemetry"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(f"import time\ntime.sleep({_IMPORT_S})\n", encoding="utf-8")
    made = environment(endpoint, **more)
    made["PYTHONPATH"] = os.pathsep.join([str(package.parent), made["PYTHONPATH"]])
    return made


@pytest.mark.parametrize("end", ENDS)
def test_a_short_process_reports_without_opentelemetry(end: str, tmp_path: Path) -> None:
    source, code, state = ENDS[end]
    with receiver() as box:
        # Long enough for a busy machine, and for an end that waits for the import to be seen.
        env = _slow_import(tmp_path, box.endpoint, FIRSTFAULT_EXIT_WAIT_S="40")
        outcome = run(f"import firstfault\nfirstfault.init()\nfirstfault.log({{'loss': 1.0}}, step=1)\n{source}\n", env, tmp_path)
    assert outcome.code == code
    assert outcome.seconds < 30
    (record,) = box.records("train.exit")
    assert record.attributes["train.exit.state"] == state
    assert [point.value for point in box.points("train.loss")] == [1.0]
    assert len(box.records("exception")) == (end == "crash")
    sequences = [request.sequence for request in box.requests]
    assert sequences == sorted(set(sequences)) and sequences[0] == 1


WAIT_FOR_IMPORT = """
import atexit, sys, time
began = []
atexit.register(lambda: print(f"{time.monotonic() - began[0]:.3f}"))
import firstfault
firstfault.init()
firstfault.log({"loss": 1.0}, step=1)
while "opentelemetry" not in sys.modules:
    time.sleep(0.01)
began.append(time.monotonic())
"""


def test_an_import_under_way_does_not_keep_the_process_longer_than_two_seconds(tmp_path: Path) -> None:
    spool = tmp_path / "spool"
    with receiver() as box:
        outcome = run(WAIT_FOR_IMPORT, _slow_import(tmp_path, box.endpoint, FIRSTFAULT_SPOOL_DIR=str(spool)), tmp_path)
    assert (outcome.code, outcome.stderr) == (0, "")
    assert float(outcome.stdout) < EXIT_DELAY_S
    assert len([path for path in spool.rglob("*") if path.is_file()]) >= 2


def test_threads_that_go_on_after_the_main_thread_are_reported_to_their_end(tmp_path: Path) -> None:
    source = (
        "import firstfault, threading, time\nfirstfault.init()\n"
        "def train():\n    for step in range(25):\n        time.sleep(0.1)\n        firstfault.log({'loss': 1.0}, step=step)\n"
        "threading.Thread(target=train).start()\n"
    )
    with receiver() as box:
        # Less than the threads take: a clock that began with the main thread's end would leave nothing for the real one.
        outcome = run(source, environment(box.endpoint), tmp_path)
    assert outcome.code == 0
    assert max(point.value for point in box.points("train.step")) == 24
    assert len(box.records("train.exit")) == 1
