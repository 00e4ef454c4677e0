"""The mesh of the demonstration job: right sums, and errors that name the peer."""

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import numpy as np
import pytest

from firstfault_server.demo.allreduce import CollectiveTimeout, Mesh, PeerLost


@contextmanager
def meshes(count: int, timeout_s: float = 20.0) -> Iterator[list[Mesh]]:
    """One mesh per rank, all in this process."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        master = ("127.0.0.1", probe.getsockname()[1])
    with ThreadPoolExecutor(count) as pool, ExitStack() as stack:
        joined = list(pool.map(lambda rank: Mesh.join(rank, count, master, timeout_s), range(count)))
        for mesh in joined:
            stack.callback(mesh.close)
        yield joined


@pytest.mark.parametrize("count", [1, 2, 4])
def test_every_rank_gets_the_mean(count: int) -> None:
    with meshes(count) as joined, ThreadPoolExecutor(count) as pool:
        for turn in range(3):
            reduced = list(pool.map(lambda mesh, turn=turn: mesh.all_reduce(np.array([mesh.rank, turn])), joined))
            assert all(np.array_equal(each, [(count - 1) / 2, turn]) for each in reduced)


def test_nan_reaches_everybody() -> None:
    with meshes(2) as joined, ThreadPoolExecutor(2) as pool:
        for each in pool.map(lambda mesh: mesh.all_reduce(np.array([np.nan if mesh.rank else 1.0])), joined):
            assert np.isnan(each).all()


def test_a_peer_that_went_away_is_named() -> None:
    with meshes(3) as joined:
        joined[2].close()
        with pytest.raises(PeerLost, match="closed by peer, rank 2"), ThreadPoolExecutor(1) as pool:
            other = pool.submit(joined[1].all_reduce, np.zeros(1))
            joined[0].all_reduce(np.zeros(1))
        with pytest.raises(PeerLost):
            other.result()


def test_a_peer_that_does_not_come_is_named() -> None:
    with meshes(2, timeout_s=0.2) as joined, pytest.raises(CollectiveTimeout, match="waiting for operation of rank 1 after"):
        joined[0].all_reduce(np.zeros(1))
