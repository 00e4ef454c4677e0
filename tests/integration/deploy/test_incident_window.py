"""Around an incident all traces of the run are kept: ranks that wait for the one that failed have traces without an error."""

import os
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from deploy.collector.build import FIXED, SOURCES
from tests.integration.deploy.collector import Collector, Document, attributes, logs, process, record, span, spans
from tests.integration.deploy.receiver import Receiver
from tests.integration.service.running import wait_for

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1800)]
Resource = dict[str, str | int]
FAILED, WAITING, OTHER = process("failing", 0), process("failing", 1), process("other", 0)
KERNEL = ("node.yaml", "kernel.yaml", "kernel-file.yaml")
RAISED = record("broken", 9) | {"attributes": attributes({"exception.type": "ValueError"})}
TELLING: dict[str, tuple[str, Callable[[Resource], Document]]] = {
    "exception record": ("logs", lambda who: logs(who, record("broken", 17, "exception"))),
    "exception without a name": ("logs", lambda who: logs(who, RAISED)),
    "failed exit": ("logs", lambda who: logs(who, record("broken", 17, "train.exit"))),
    "failed span": ("traces", lambda who: spans(who, span(99, 0, error=True))),
    "span with an exception": ("traces", lambda who: spans(who, span(98, 0, exception="broken"))),
}
QUIET: dict[str, tuple[str, Callable[[Resource], Document]]] = {
    "plain error line": ("logs", lambda who: logs(who, record("an error line", 17))),
    "heartbeat": ("logs", lambda who: logs(who, record("", 9, "train.heartbeat"))),
    "slow span": ("traces", lambda who: spans(who, span(97, 0, lasted_s=100))),
}


def test_the_memory_of_windows(collector_binary: Path) -> None:
    """The tests in Go, after the build has filled the compiler's cache."""
    command = ["go", "test", "-count=1", "firstfault/incidentwindow/..."]
    done = subprocess.run(
        command, cwd=SOURCES, env=os.environ | FIXED, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("ok"), "no test was found"


def kept(receiver: Receiver) -> set[str]:
    """Names of the spans that came, without those that tell by themselves."""
    return set(receiver.spans()) - {"span-99-0", "span-98-0", "span-97-0"}


def test_before_and_after_an_error(receiver: Receiver, tmp_path: Path, collector_binary: Path) -> None:
    """Traces of the peer that began shortly before the error and after it; none of runs of the same node in which nothing went wrong."""
    settings = {"TRACE_WAIT": "5s", "TRACE_PERCENT": "0", "INCIDENT_WINDOW": "60s"}
    cases = list(enumerate(TELLING | QUIET))
    with Collector(tmp_path, receiver.url, "ffk_agent", **settings) as collector:
        for number, how in cases:
            signal, made = (TELLING | QUIET)[how]
            peer = process(how, 1)
            collector.send("traces", spans(peer, span(10 + number, 0)))
            collector.send(signal, made(process(how, 0)))
            collector.send("traces", spans(peer, span(30 + number, 0)))
        wanted = {f"span-{first + number}-0" for first in (10, 30) for number, how in cases if how in TELLING}
        wait_for(lambda: kept(receiver) >= wanted, 30, "the traces of the runs with an error")
        # Decided when the window of its run is open for long: those before it are decided, too.
        collector.send("traces", spans(process(cases[0][1], 1), span(60, 0)))
        wait_for(lambda: kept(receiver) >= wanted | {"span-60-0"}, 30, "a later trace")
        assert kept(receiver) == wanted | {"span-60-0"}


def test_the_window_ends(receiver: Receiver, tmp_path: Path, collector_binary: Path) -> None:
    settings = {"TRACE_WAIT": "1s", "TRACE_PERCENT": "0", "INCIDENT_WINDOW": "2s"}
    with Collector(tmp_path, receiver.url, "ffk_agent", **settings) as collector:
        collector.send("traces", spans(FAILED, span(99, 0, error=True)))
        collector.send("traces", spans(WAITING, span(1, 0)))
        wait_for(lambda: kept(receiver) == {"span-1-0"}, 30, "a trace within the window")
        threading.Event().wait(4)
        collector.send("traces", spans(WAITING, span(2, 0)))
        threading.Event().wait(4)
        assert kept(receiver) == {"span-1-0"}
        collector.send("traces", spans(FAILED, span(99, 0, error=True)))
        collector.send("traces", spans(WAITING, span(3, 0)))
        wait_for(lambda: kept(receiver) == {"span-1-0", "span-3-0"}, 30, "a trace within the next window")


def test_a_kernel_fault_is_about_every_run_of_the_node(receiver: Receiver, tmp_path: Path, collector_binary: Path) -> None:
    log = tmp_path / "kern.log"
    log.write_text("Nov 29 10:00:00 node-a kernel: [1.0] before\n")
    settings = {"TRACE_WAIT": "2s", "TRACE_PERCENT": "0", "KERNEL_FILE": str(log)}
    with Collector(tmp_path / "agent", receiver.url, "ffk_agent", KERNEL, **settings) as collector:
        wait_for(collector.watches, 20, "the file")
        with log.open("a") as file:
            file.write("Nov 29 10:00:02 node-a kernel: [3.0] NVRM: Xid (PCI:0000:3b:00): 79, pid=4000, GPU has fallen off the bus.\n")
        wait_for(lambda: len(receiver.records()) == 1, 20, "the record")
        collector.send("traces", spans(WAITING, span(1, 0)))
        collector.send("traces", spans(OTHER, span(2, 0)))
        wait_for(lambda: kept(receiver) == {"span-1-0", "span-2-0"}, 30, "the traces of both")


def test_windows_can_be_switched_off(receiver: Receiver, tmp_path: Path, collector_binary: Path) -> None:
    settings = {"TRACE_WAIT": "1s", "TRACE_PERCENT": "0", "INCIDENT_WINDOW": "0s"}
    with Collector(tmp_path, receiver.url, "ffk_agent", **settings) as collector:
        start = time.monotonic()
        collector.send("traces", spans(FAILED, span(99, 0, error=True), span(99, 1)))
        collector.send("traces", spans(WAITING, span(1, 0)))
        wait_for(lambda: kept(receiver) == {"span-99-1"}, 30, "the trace with the error")
        threading.Event().wait(max(0.0, 4 - (time.monotonic() - start)))
        assert kept(receiver) == {"span-99-1"}
