"""Runs a command as if it had been started in this process's place: same signals, same status, same standard streams.

The command stays in the process group. A signal sent to the group reaches it without help, one sent to this process alone has
to be passed on, and a stop signal delivered twice breaks launchers that are shutting down their workers. A sentinel process in
the same group tells the two apart: what it receives too was sent to all. When this process is killed outright, so is the command.
"""

import ctypes
import os
import select
import signal
import sys
import time
from collections.abc import Mapping, Sequence

from firstfault._stderr_capture import StderrCapture
from firstfault.sidecar.launched import LaunchDir

_FORWARDED = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2})
_SENTINEL_ANSWERS_S = 0.1
_REPORT_S = 1.5
_PR_SET_PDEATHSIG = 1
_CANNOT_EXECUTE, _NOT_FOUND = 126, 127


def run_in_foreground(command: Sequence[str], environ: Mapping[str, str], launched: LaunchDir | None, *, capture_stderr: bool) -> int:
    """Run `command`; its exit status, or does not return: this process dies of the signal that ended the command."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, _FORWARDED | {signal.SIGCHLD})
    capture = StderrCapture.open() if capture_stderr else None
    sentinel = _Sentinel()
    try:
        pid = _start(command, environ, mask, capture)
    except OSError as error:
        sentinel.stop()
        if capture is not None:
            capture.finish()
        if launched is not None:
            launched.finish()
        return cannot_start(command[0], error)
    if capture is not None:
        capture.start()
    wait_status = _wait(pid, sentinel, launched)
    sentinel.stop()
    if capture is not None:
        capture.finish()
    if launched is not None:
        launched.finish()
        _let_sidecars_report(launched)
    if os.WIFSIGNALED(wait_status):
        return _die_of(os.WTERMSIG(wait_status), mask)
    return os.WEXITSTATUS(wait_status)


def cannot_start(name: str, error: OSError) -> int:
    """Say why a command cannot be started; the status that a shell gives for it."""
    print(f"firstfault run: {name}: {error.strerror or error}", file=sys.stderr)
    return _NOT_FOUND if isinstance(error, FileNotFoundError) else _CANNOT_EXECUTE


def _start(command: Sequence[str], environ: Mapping[str, str], mask: set[int | signal.Signals], capture: StderrCapture | None) -> int:
    """Fork and execute; raises the OSError of a command that cannot be executed."""
    failed, fail = os.pipe()
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            _die_with_parent(parent)
            if capture is not None:
                os.dup2(capture.fd, 2)
            # Python ignores these two for itself; a command expects the defaults.
            for number in (signal.SIGPIPE, signal.SIGXFSZ):
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            os.execvpe(command[0], list(command), dict(environ))
        except OSError as error:
            os.write(fail, str(error.errno or 0).encode())
        finally:
            os._exit(_NOT_FOUND)
    os.close(fail)
    with os.fdopen(failed, "rb") as pipe:
        errno = pipe.read()
    if errno:
        os.waitpid(pid, 0)
        raise OSError(int(errno), os.strerror(int(errno)))
    return pid


def _wait(pid: int, sentinel: "_Sentinel", launched: LaunchDir | None) -> int:
    """Pass signals on until the command ends; leave its status for its sidecar before anyone can forget it."""
    while True:
        number = signal.sigwait(_FORWARDED | {signal.SIGCHLD})
        if number != signal.SIGCHLD:
            if not sentinel.received(number):
                os.kill(pid, number)
            continue
        # The status stays readable until it is collected. As process 1 of a container there are orphans to collect, too.
        while (ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is not None:
            if ended.si_pid == pid:
                if launched is not None:
                    _leave_status(launched, pid, ended)
                return os.waitpid(pid, 0)[1]
            os.waitpid(ended.si_pid, 0)


def _leave_status(launched: LaunchDir, pid: int, ended: os.waitid_result) -> None:
    number = ended.si_status << 8 if ended.si_code == os.CLD_EXITED else ended.si_status
    try:
        launched.write(pid, number)
    except OSError as error:
        print(f"firstfault run: the exit status cannot be left for the sidecar: {error}", file=sys.stderr)


def _let_sidecars_report(launched: LaunchDir) -> None:
    """The end of a container's first process ends everything in it: give reports a moment."""
    if 1 not in (os.getpid(), os.getppid()):
        return
    deadline = time.monotonic() + _REPORT_S
    while launched.marked() and time.monotonic() < deadline:
        time.sleep(0.05)


def _die_of(number: int, mask: set[int | signal.Signals]) -> int:
    """End as the command did, without a core file of our own; process 1 cannot, and returns what a shell would."""
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
    except (ImportError, OSError, ValueError):
        return 128 + number
    sys.stdout.flush()
    sys.stderr.flush()
    signal.pthread_sigmask(signal.SIG_SETMASK, mask - {number})
    os.kill(os.getpid(), number)
    return 128 + number


def _die_with_parent(parent: int) -> None:
    """Ask the kernel to kill this process when its parent is gone; where it cannot, nothing changes."""
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    except (OSError, AttributeError):
        return
    if os.getppid() != parent:
        os._exit(128 + signal.SIGKILL)


class _Sentinel:
    """A process of this group that reports the signals it gets."""

    def __init__(self) -> None:
        self._reading, writing = os.pipe()
        parent = os.getpid()
        self._pid = os.fork()
        if self._pid == 0:
            try:
                self._report(parent, writing)
            finally:
                os._exit(0)
        os.close(writing)
        self._seen: list[tuple[int, float]] = []

    def received(self, number: int) -> bool:
        """Whether the group got this signal, which has just come here."""
        deadline = time.monotonic() + _SENTINEL_ANSWERS_S
        while True:
            self._seen = [(seen, at) for seen, at in self._seen if time.monotonic() - at < 1.0]
            for entry in self._seen:
                if entry[0] == number:
                    self._seen.remove(entry)
                    return True
            ready, _, _ = select.select([self._reading], [], [], max(0.0, deadline - time.monotonic()))
            data = os.read(self._reading, 64) if ready else b""
            if not data:
                return False
            self._seen += [(seen, time.monotonic()) for seen in data]

    def stop(self) -> None:
        """End the sentinel and forget it."""
        os.close(self._reading)
        try:
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
        except (ProcessLookupError, ChildProcessError):
            return  # Somebody killed it, and it was collected.

    @staticmethod
    def _report(parent: int, writing: int) -> None:
        null = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(null, fd)
        _die_with_parent(parent)
        while os.getppid() == parent:
            info = signal.sigtimedwait(_FORWARDED, 1.0)
            if info is not None:
                os.write(writing, bytes([info.si_signo]))
