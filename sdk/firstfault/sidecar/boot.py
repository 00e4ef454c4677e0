"""Script of the process between job and sidecar: run as a file by an isolated interpreter, forks the sidecar and exits.

Imports as little as possible before the fork, since the training process waits for it.
"""

import os
import signal
import sys

# Who stops the job stops every process of it; the sidecar reports first and ends by itself.
_IGNORED = ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGPIPE", "SIGTSTP")


def _become_sidecar(pid: int, pidfd: int, first_stat: bytes) -> None:
    message = bytearray()
    while not message.endswith(b"\n"):
        chunk = os.read(0, 65536)
        if not chunk:
            return  # The job ended while it was starting us.
        message += chunk
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.close(null)

    from pathlib import Path
    from types import ModuleType

    # A stand-in for the package, so that its `__init__` (the in-process SDK) is not loaded here.
    package = ModuleType("firstfault")
    package.__path__ = [str(Path(__file__).parent.parent)]
    sys.modules["firstfault"] = package
    from firstfault.sidecar.death import WatchedProcess
    from firstfault.sidecar.handover import Handover
    from firstfault.sidecar.watch import watch

    watch(Handover.from_json(message.decode()), WatchedProcess(pid, pidfd, first_stat))


def main() -> None:
    """`boot.py PID`: watch process PID, which must be the parent; the hand-over comes on standard input as one line."""
    pid = int(sys.argv[1])
    for name in _IGNORED:
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    # While the parent waits for this process its id cannot be given to another one.
    try:
        pidfd = os.pidfd_open(pid)
    except (AttributeError, OSError):
        pidfd = -1  # An older kernel, another system or a sandbox: the process table is polled instead.
    try:
        with open(f"/proc/{pid}/stat", "rb") as table:  # noqa: PTH123 - before the fork every import costs the job time
            first_stat = table.read()
    except OSError:
        first_stat = b""
    if os.getppid() != pid or os.fork() != 0:
        os._exit(0)
    try:
        _become_sidecar(pid, pidfd, first_stat)
    finally:
        # Nothing that runs at interpreter exit is wanted here: a sender thread may hang in the network.
        os._exit(0)


if __name__ == "__main__":
    main()
