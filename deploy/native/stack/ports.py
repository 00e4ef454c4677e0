"""Who listens on a port already, in words that say what to do about it."""

import errno
import os
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

NAMED: Final = 3
"""So many ports are named; one program seldom holds neighbours of different kinds."""
NO_INODE: Final = "0"
"""Of what a connection has left behind: nobody holds it."""


def taken(ports: Mapping[str, int]) -> str:
    """Which of a stack's ports (part -> port) its servers would not get, each with the reason; empty when they would get all."""
    reasons = ((part, port, why_not(port)) for part, port in ports.items())
    found = [f"port {port} (for {part.replace('_', ' ')}) {reason}" for part, port, reason in reasons if reason]
    more = f"; and {len(found) - NAMED} more" if len(found) > NAMED else ""
    return "; ".join(found[:NAMED]) + more


def why_not(port: int) -> str:
    """Why a server would not get a port of the loopback interface; empty when it would."""
    with socket.socket() as probe:
        # As servers do it: what a connection of a moment ago has left there is nobody.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
            probe.listen()
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return f"is in use by {_holder(port)}"
            return f"cannot be had: {os.strerror(error.errno or 0)}"
    return ""


def _holder(port: int) -> str:
    sockets = {f"socket:[{inode}]" for inode in _inodes(port)}
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if any(str(held.readlink()) in sockets for held in (place / "fd").iterdir()):
                return f"process {place.name} ({(place / 'comm').read_text(encoding='utf-8', errors='backslashreplace').strip()})"
        except OSError:
            # Gone in the meantime, or somebody else's.
            continue
    return f"a process of another user or container (`ss -tanp 'sport = {port}'`, as root, names it)"


def _inodes(port: int) -> Iterator[str]:
    """Of the sockets that have it, listening or connected."""
    for table in ("tcp", "tcp6"):
        try:
            lines = Path("/proc/net", table).read_text(encoding="ascii").splitlines()[1:]
        except FileNotFoundError:
            # A machine without IPv6.
            continue
        for line in lines:
            columns = line.split()
            if int(columns[1].rpartition(":")[2], 16) == port and columns[9] != NO_INODE:
                yield columns[9]
