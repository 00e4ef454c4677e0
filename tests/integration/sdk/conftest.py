"""Fixtures of the SDK's integration tests: a receiver, and jobs that are watched by a real sidecar."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.sdk.jobs import Jobs
from tests.integration.sdk.peer import Receiver, receiving


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """An OTLP/HTTP JSON service."""
    with receiving() as serving:
        yield serving


@pytest.fixture
def jobs(receiver: Receiver, tmp_path: Path) -> Iterator[Jobs]:
    """Starts jobs that report to `receiver`; after the test none of them and none of their sidecars is left."""
    made = Jobs(receiver.endpoint, tmp_path)
    yield made
    left = [process for process in made.started if process.poll() is None]
    for process in left:
        process.kill()
    for process in made.started:
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            os.kill(process.pid, signal.SIGKILL)
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
    made.wait_for_sidecars()
    assert made.sidecar_errors() == ""
