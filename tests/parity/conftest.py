"""The cluster that the tests of this folder share, and what each of them writes into topics of its own."""

from collections.abc import Iterator

import pytest

from deploy.native.servers.flink import Flink
from deploy.native.servers.flink_env import ROOT


@pytest.fixture(scope="package")
def flink(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flink]:
    """A cluster with room for two instances of everything."""
    cluster = Flink(tmp_path_factory.mktemp("flink"), taskmanagers=2, path=[ROOT])
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
