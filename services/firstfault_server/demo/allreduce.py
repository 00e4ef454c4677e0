"""A full mesh of TCP connections between ranks, and the sum of an array over it: what the demonstration job trains with."""

import json
import socket
import struct
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

_LENGTH = struct.Struct("!Q")
_CONNECT_TIMEOUT_S = 30.0


class PeerLost(ConnectionError):
    """A peer went away in the middle of a collective."""


class CollectiveTimeout(TimeoutError):
    """A peer did not join a collective in time."""


class Mesh:
    """Connections of one rank to all others; collectives must be called by every rank in the same order."""

    def __init__(self, rank: int, peers: Mapping[int, socket.socket], timeout_s: float) -> None:
        self.rank = rank
        self._peers = dict(sorted(peers.items()))
        for peer in self._peers.values():
            peer.settimeout(timeout_s)
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._timeout_s = timeout_s
        self._sequence = 0

    @classmethod
    def join(cls, rank: int, world_size: int, master: tuple[str, int], timeout_s: float) -> "Mesh":
        """Meet the other ranks at `master` (rank 0 listens there) and connect to each. Raises OSError, TimeoutError."""
        deadline = time.monotonic() + _CONNECT_TIMEOUT_S
        with socket.create_server((master[0], 0)) as own:
            addresses = _exchange(rank, world_size, master, own.getsockname(), deadline)
            peers: dict[int, socket.socket] = {}
            for other in range(rank):
                peers[other] = _connect(addresses[other], deadline)
                _send(peers[other], rank)
            own.settimeout(_CONNECT_TIMEOUT_S)
            while len(peers) < world_size - 1:
                peer, _ = own.accept()
                peers[_receive(peer)] = peer
        return cls(rank, peers, timeout_s)

    def all_reduce(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Mean over all ranks. Raises PeerLost or CollectiveTimeout naming the peer."""
        self._sequence += 1
        total = values.astype(np.float64, copy=True)
        current = -1
        try:
            for rank, peer in self._peers.items():
                current = rank
                _send(peer, (self._sequence, values.tolist()))
            for rank, peer in self._peers.items():
                current = rank
                sequence, theirs = _receive(peer)
                if sequence != self._sequence:
                    raise RuntimeError(f"all_reduce {self._sequence}: rank {current} is in all_reduce {sequence}")
                total += np.asarray(theirs)
        except TimeoutError as error:
            raise CollectiveTimeout(
                f"all_reduce {self._sequence}: timed out waiting for operation of rank {current} after {self._timeout_s:g} s"
            ) from error
        except ConnectionError as error:
            raise PeerLost(f"all_reduce {self._sequence}: connection closed by peer, rank {current}") from error
        return total / (len(self._peers) + 1)

    def close(self) -> None:
        """Break every connection."""
        for peer in self._peers.values():
            peer.close()


def _exchange(rank: int, world_size: int, master: tuple[str, int], own: tuple[str, int], deadline: float) -> dict[int, tuple[str, int]]:
    """Everybody's address, gathered and handed out by rank 0."""
    if rank:
        with _connect(master, deadline) as store:
            _send(store, (rank, own))
            return {int(other): (host, port) for other, (host, port) in _receive(store).items()}
    addresses = {0: own}
    waiting = []
    with socket.create_server(master) as store:
        store.settimeout(_CONNECT_TIMEOUT_S)
        while len(addresses) < world_size:
            peer, _ = store.accept()
            peer.settimeout(_CONNECT_TIMEOUT_S)
            other, address = _receive(peer)
            addresses[other] = (address[0], address[1])
            waiting.append(peer)
    for peer in waiting:
        with peer:
            _send(peer, addresses)
    return addresses


def _connect(address: tuple[str, int], deadline: float) -> socket.socket:
    while True:
        try:
            return socket.create_connection(address, timeout=_CONNECT_TIMEOUT_S)
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def _send(peer: socket.socket, value: Any) -> None:
    data = json.dumps(value).encode()
    peer.sendall(_LENGTH.pack(len(data)) + data)


def _receive(peer: socket.socket) -> Any:
    (length,) = _LENGTH.unpack(_exactly(peer, _LENGTH.size))
    return json.loads(_exactly(peer, length))


def _exactly(peer: socket.socket, length: int) -> bytes:
    parts = bytearray()
    while len(parts) < length:
        part = peer.recv(length - len(parts))
        if not part:
            raise ConnectionResetError("end of stream")
        parts += part
    return bytes(parts)
