"""The exit status in the beacon page, as the C library wrote it (real processes)."""

import sys
from pathlib import Path

import pytest

from firstfault._beacon import BeaconReader, Exit
from tests.unit.sdk.jobs import environment, start
from tests.unit.sdk.receiver import nobody

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the page is a memory file and on_exit is glibc's"),
]

JOB = """
import os, sys
import firstfault
from firstfault._beacon import Cell
from firstfault.hooks import status
firstfault.init(sidecar=False)
client = firstfault._current.client
client._detach_status = status.install(client.beacon.fd, 8 * int(Cell.STATUS))
print(client.beacon.path, flush=True)
os.read(int(os.environ["GO"]), 1)
"""
ENDINGS = {
    "raise SystemExit(3)": 3,
    "sys.exit(7)": 7,
    "pass": 0,
    "1 / 0": 1,
    "os._exit(9)": None,
    "os.kill(os.getpid(), 9)": None,
    "pid = os.fork()\nif pid == 0:\n    sys.exit(5)\nos.waitpid(pid, 0)\nraise SystemExit(2)": 2,
    "pid = os.fork()\nif pid == 0:\n    sys.exit(5)\nos.waitpid(pid, 0)\nos._exit(0)": None,
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_the_page_tells_the_status(ending: str, tmp_path: Path) -> None:
    import os

    reading, writing = os.pipe()
    os.set_inheritable(reading, True)
    with nobody() as endpoint:
        process = start(JOB + ending, environment(endpoint, GO=str(reading)), tmp_path)
        with process:
            assert process.stdout is not None
            page = BeaconReader(process.stdout.readline().strip())
            os.write(writing, b"x")
            process.communicate(timeout=30)
    os.close(reading)
    os.close(writing)
    found = page.read()
    page.close()
    assert found.status == ENDINGS[ending]
    if found.status:
        assert found.exit is not Exit.RUNNING
