"""Requests to end while something is under way: one exception, once, and what was begun by others stays."""

import os
import signal
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from deploy.native.stack import ending, layout, life
from deploy.native.stack.interruption import ASKING, Interrupted, interruptible
from deploy.native.stack.programs import SERVERS


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """What the tests run with comes back."""
    before = {number: signal.getsignal(number) for number in ASKING}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", ASKING)
def test_the_first_request_is_an_exception_and_the_next_are_ignored(number: signal.Signals) -> None:
    with pytest.raises(Interrupted, match=number.name) as request, interruptible():
        os.kill(os.getpid(), number)
    assert request.value.status == 128 + number
    for each in ASKING:
        os.kill(os.getpid(), each)


def test_what_ends_by_itself_leaves_signals_as_they_were() -> None:
    before = {number: signal.getsignal(number) for number in ASKING}
    with interruptible():
        pass
    with pytest.raises(ValueError), interruptible():
        raise ValueError
    assert {number: signal.getsignal(number) for number in ASKING} == before


def test_requests_that_are_ignored_stay_ignored() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with interruptible():
        os.kill(os.getpid(), signal.SIGHUP)
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


class Supervisor:
    """Some programs run already; the request comes when a certain one is started."""

    def __init__(self, running: Collection[str], interrupts: str) -> None:
        self.running = bool(running)
        self.halted: list[str] = []
        self.shut = False
        self._states = {name: "RUNNING" if name in running else "STOPPED" for name in SERVERS}
        self._interrupts = interrupts

    def start(self, environment: Mapping[str, str]) -> None:
        """Nothing to do."""

    def states(self) -> dict[str, str]:
        return self._states

    def run(self, name: str) -> None:
        self._states[name] = "STARTING"
        if name == self._interrupts:
            raise Interrupted(signal.SIGINT)

    def halt_all(self, names: Collection[str], _within_s: float) -> bool:
        self.halted += names
        return True

    def shut_down(self) -> None:
        self.shut = True


@pytest.mark.parametrize(("known", "running"), [(False, ()), (True, ()), (True, SERVERS[:2])], ids=["new", "at rest", "a part runs"])
def test_an_interrupted_start_ends_what_it_has_begun_and_only_that(
    known: bool, running: Collection[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "stack"
    if known:
        layout.make(folder)
    made = Supervisor(running, SERVERS[3])
    monkeypatch.setattr(life, "Supervisor", lambda *_: made)
    said: list[str] = []
    with pytest.raises(Interrupted):
        life.up(folder, said.append)
    assert made.halted == [name for name in SERVERS[:4] if name not in running]
    assert made.shut is not bool(running)
    assert folder.exists() is known
    assert len(said) == 1


def test_a_shell_in_which_the_mark_was_set_is_no_process_of_the_stack(tmp_path: Path) -> None:
    """The environment that /proc shows is the one a process was started with: pytest itself, when it runs for a stack."""
    own = layout.make(tmp_path / "stack")
    read = Path.read_bytes

    def marked(path: Path) -> bytes:
        if path == Path(f"/proc/{os.getppid()}/environ") or path == Path(f"/proc/{os.getpid()}/environ"):
            return f"A=1\0{ending.MARK}={own.folder}\0".encode()
        return read(path)

    def killed(pid: int, _number: int) -> Any:
        pytest.fail(f"process {pid} is killed")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "read_bytes", marked)
        patch.setattr(os, "kill", killed)
        ending.take_back(own, Supervisor((), ""), [], whole=True, made=False)  # type: ignore[arg-type]
