"""The sidecar's loop over a process whose end the kernel does not explain: where else a status is found, and what is said without."""

import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from firstfault import conventions
from firstfault._beacon import Beacon, Cell, Exit
from firstfault._sidecar_config import SidecarConfig
from firstfault.sidecar import stderr, watch
from firstfault.sidecar.death import Status
from firstfault.sidecar.handover import Handover, StderrSource
from firstfault.sidecar.launched import LaunchDir
from firstfault.sidecar.tail import StderrTail

PID = 4_000_042
"""Above what Linux gives out: no such process."""


class Process:
    """A process that ends when asked about the third time, and whose status is not told."""

    def __init__(self, status: Status | None = None) -> None:
        self._status = status
        self._asked = 0

    def wait(self, timeout_s: float) -> bool:
        self._asked += 1
        return self._asked >= 3

    def state(self) -> str | None:
        return "S"

    def replaced(self) -> bool:
        return False

    def status(self) -> Status | None:
        return self._status


class Outbox:
    """Stands in for the sender."""

    def __init__(self, *_: object) -> None:
        self.dropped: Counter[str] = Counter()
        self.beats: list[Mapping[str, Any]] = []
        self.kept: list[Mapping[str, Any]] = []

    def heartbeat(self, records: Sequence[Mapping[str, Any]]) -> None:
        self.beats += records

    def keep(self, records: Sequence[Mapping[str, Any]]) -> None:
        self.kept += records

    def drain(self, timeout_s: float) -> list[Any]:
        return []

    def exit(self) -> dict[str, Any]:
        """Attributes of the only exit record, plain."""
        (found,) = [record for record in self.kept if record["eventName"] == "train.exit"]
        return {entry["key"]: next(iter(entry["value"].values())) for entry in found["attributes"]}


class Stand:
    """A job's files and page, and its sidecar over stand-ins."""

    def __init__(self, folder: Path) -> None:
        self.stderr = folder / "stderr"
        self.stderr.touch()
        self.fd = os.open(self.stderr, os.O_RDONLY)
        self.beacon = Beacon()
        self.launched = LaunchDir(str(folder))

    def run(self, process: Process, **config: Any) -> Outbox:
        """Watch the process to its end."""
        made = SidecarConfig(pid=PID, beacon_fd=self.beacon.fd, heartbeat_interval_s=0.0, **config)
        source = StderrSource(status="seen", path=str(self.stderr), fd=self.fd)
        handover = Handover(config=made, stderr=source, secrets=["cAnaRy-7391"])
        sidecar = watch.Sidecar(handover, process, self.launched)  # type: ignore[arg-type]
        sidecar.run()
        outbox = sidecar._sender
        assert isinstance(outbox, Outbox)
        return outbox


@pytest.fixture
def stand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stand]:
    monkeypatch.setattr(watch, "Sender", Outbox)
    monkeypatch.setattr(watch, "_LAST_WORDS_S", 0.2)
    made = Stand(tmp_path)
    yield made
    made.beacon.close()
    os.close(made.fd)


def test_without_any_evidence_it_is_unknown_and_says_so(stand: Stand) -> None:
    said = stand.run(Process()).exit()
    assert said["train.exit.state"] == "unknown"
    assert "not visible" in said["train.exit.reason"]
    assert "train.exit.signal" not in said
    assert "train.exit.code" not in said


def test_the_parents_word_is_found(stand: Stand) -> None:
    stand.launched.write(PID, signal.SIGKILL)
    said = stand.run(Process()).exit()
    assert (said["train.exit.state"], said["train.exit.signal"], said["train.exit.source"]) == ("killed", "9", "launcher")


def test_the_launchers_words_are_found(stand: Stand) -> None:
    stand.stderr.write_text(f"E1129 18:00:00.1 api.py:869] failed (exitcode: -9) local_rank: 1 (pid: {PID}) of binary: python\n")
    said = stand.run(Process()).exit()
    assert (said["train.exit.state"], said["train.exit.signal"], said["train.exit.source"]) == ("killed", "9", "launcher")


def test_the_c_librarys_word_is_found(stand: Stand) -> None:
    stand.beacon.cells[Cell.STATUS] = 5
    said = stand.run(Process()).exit()
    assert (said["train.exit.state"], said["train.exit.code"]) == ("failed", "5")


def test_the_kernels_word_counts_more_than_the_c_librarys(stand: Stand) -> None:
    """A crash in a destructor comes after the C library has said 0."""
    stand.beacon.cells[Cell.STATUS] = 0
    stand.beacon.exit(Exit.FINISHED, 0, "")
    said = stand.run(Process(Status(signal=signal.SIGSEGV))).exit()
    assert (said["train.exit.state"], said["train.exit.signal"]) == ("killed", "11")


def test_the_kernels_line_about_an_oom_kill_goes_along(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    line = f"Out of memory: Killed process {PID} (python) TOKEN cAnaRy-7391"

    class Kernel:
        def __init__(self, pid: int) -> None:
            assert pid == PID

        def oom(self) -> tuple[str, str]:
            return "the kernel's out-of-memory killer chose it", line

    monkeypatch.setattr(watch, "KernelEvidence", Kernel)
    outbox = stand.run(Process(Status(signal=signal.SIGKILL)))
    assert "out-of-memory" in outbox.exit()["train.exit.reason"]
    assert [record["body"]["stringValue"] for record in outbox.kept if record["eventName"] == "train.log"] == [
        line.replace("cAnaRy-7391", "[redacted]")
    ]


def test_an_error_of_its_own_costs_a_beat_and_not_the_exit_record(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> None:
        raise RuntimeError("no beat")

    real: Callable[[watch.Sidecar], dict[str, Any]] = watch.Sidecar._heartbeat
    calls = iter([fails])

    def heartbeat(sidecar: watch.Sidecar) -> dict[str, Any]:
        for call in calls:
            call()
        return real(sidecar)

    monkeypatch.setattr(watch.Sidecar, "_heartbeat", heartbeat)
    outbox = stand.run(Process(Status(code=3)))
    assert outbox.dropped["sidecar_error"] == 1
    assert len(outbox.beats) == 2
    assert outbox.exit()["train.exit.state"] == "failed"


def test_a_file_system_that_hangs_stops_neither_beats_nor_the_exit_record(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    released, hung = threading.Event(), threading.Event()

    def hangs(tail: StderrTail) -> list[str]:
        hung.set()
        released.wait(20)
        return []

    class Slow(Process):
        def wait(self, timeout_s: float) -> bool:
            return hung.wait(10) and super().wait(timeout_s)

    monkeypatch.setattr(StderrTail, "read", hangs)
    monkeypatch.setattr(stderr, "_PERIOD_S", 0.001)
    try:
        outbox = stand.run(Slow(Status(code=3)))
    finally:
        released.set()
    assert len(outbox.beats) == 3
    assert outbox.exit()["train.exit.state"] == "failed"
    assert outbox.exit()["firstfault.stderr.status"] == "not_seen: unreadable"


def test_without_a_page_the_end_is_reported_all_the_same(stand: Stand) -> None:
    stand.beacon.cells[Cell.LAYOUT] = 1
    said = stand.run(Process(Status(signal=signal.SIGKILL))).exit()
    assert said["train.exit.state"] == "killed"
    assert "train.step" not in said


def test_a_traceback_stays_in_the_tail_and_is_no_evidence_of_its_own(stand: Stand) -> None:
    lines = [
        "ERROR before",
        "Traceback (most recent call last):",
        '  File "train.py", line 3, in <module>',
        '    raise RuntimeError("CUDA error: ERROR")',
        "RuntimeError: CUDA error: ERROR",
        "slurmstepd: error: after",
    ]
    stand.stderr.write_text("\n".join(lines))
    outbox = stand.run(Process(Status(code=1)))
    sent = [record["body"]["stringValue"] for record in outbox.kept if record["eventName"] == "train.log"]
    assert sent == [lines[0], lines[-1]]
    (tail,) = [entry["value"] for record in outbox.kept for entry in record["attributes"] if entry["key"] == conventions.STDERR_TAIL]
    assert [value["stringValue"] for value in tail["arrayValue"]["values"]] == lines
