"""One server for several processes: started by whoever comes first, ended when the last user has gone, however it went.

    with shared("kafka", folder) as address: ...

A keeper process owns the server. Every user holds a shared lock on a file, which the kernel takes back when the user ends, even by
kill -9; the keeper waits for an exclusive lock on the same file, and gets it when nobody is left.
"""

import argparse
import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol

from deploy.native.servers.clickhouse import ClickHouse
from deploy.native.servers.elasticsearch import Elasticsearch
from deploy.native.servers.kafka import Kafka
from deploy.native.servers.process import ServerFailed

ROOT: Final = Path(__file__).resolve().parents[3]
START_S: Final = 1200.0
"""Fetching may be slow, but ends by itself before this."""


class Server(Protocol):
    """What the keeper can keep."""

    @property
    def address(self) -> str:
        """Where clients find it."""

    def start(self) -> None:
        """Return when it answers."""

    def stop(self) -> None:
        """End it in order."""


SERVERS: Final[Mapping[str, Callable[[Path], Server]]] = {
    "clickhouse": ClickHouse,
    "elasticsearch": Elasticsearch,
    "kafka": Kafka,
}


@contextmanager
def shared(kind: str, folder: Path, *, keeper: str = __name__) -> Iterator[str]:
    """Address of the one server that all users of `folder` have together; `keeper` is the module run for it. Raises ServerFailed."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "users.lock").open("w") as user:
        with (folder / "start.lock").open("w") as starting:
            fcntl.flock(starting, fcntl.LOCK_EX)
            # The keeper that found nobody left may still be ending: this waits for it.
            fcntl.flock(user, fcntl.LOCK_SH)
            address = _address(folder) or _start_keeper(kind, folder, keeper)
        yield address


def _address(folder: Path) -> str | None:
    """Address of a server that is kept now. The keeper removes the file before it lets go of its locks."""
    with contextlib.suppress(FileNotFoundError), (folder / "keeper.lock").open("r+") as probe:
        try:
            fcntl.flock(probe, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return (folder / "address").read_text(encoding="ascii")
    return None


def _start_keeper(kind: str, folder: Path, module: str) -> str:
    (folder / "address").unlink(missing_ok=True)
    command = [sys.executable, "-m", module, kind, str(folder.resolve())]
    with (folder / "keeper.log").open("wb") as log:
        keeper = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    deadline = time.monotonic() + START_S
    while not (folder / "address").exists():
        if keeper.poll() is not None:
            raise ServerFailed(f"{kind} could not be started:\n{(folder / 'keeper.log').read_text(encoding='utf-8')[-3000:]}")
        if time.monotonic() > deadline:
            keeper.terminate()
            raise ServerFailed(f"{kind} was not there after {START_S:.0f} s")
        time.sleep(0.05)
    # The keeper outlives this user on purpose.
    keeper.returncode = 0
    return (folder / "address").read_text(encoding="ascii")


def keep(make: Callable[[Path], Server], folder: Path) -> None:
    """Run a server for as long as somebody uses it. Raises ServerFailed."""
    data = folder / "server"
    with (folder / "keeper.lock").open("w") as own, (folder / "users.lock").open("w") as users:
        fcntl.flock(own, fcntl.LOCK_EX)
        server = make(data)
        try:
            server.start()
            written = folder / ".address"
            written.write_text(server.address, encoding="ascii")
            written.rename(folder / "address")
            fcntl.flock(users, fcntl.LOCK_EX)
        finally:
            server.stop()
            (folder / "address").unlink(missing_ok=True)
            shutil.rmtree(data, ignore_errors=True)


def main(arguments: Sequence[str] | None = None, servers: Mapping[str, Callable[[Path], Server]] = SERVERS) -> int:
    """The keeper; exit status."""
    parser = argparse.ArgumentParser(description="Keep a server for as long as somebody uses it.")
    parser.add_argument("kind", choices=sorted(servers))
    parser.add_argument("folder", type=Path)
    given = parser.parse_args(arguments)
    os.umask(0o077)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        keep(servers[given.kind], given.folder)
    except ServerFailed as error:
        print(f"servers: {error}", file=sys.stderr, flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
