"""Servers of one test alone, for tests that kill them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.native.servers.kafka import Kafka


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Kafka]:
    """A node of this test alone."""
    started = Kafka(tmp_path / "kafka")
    started.start()
    yield started
    started.stop()
