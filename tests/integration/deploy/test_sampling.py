"""What the Collector leaves out and what it never does, seen by a receiver in place of ingest (which keeps no plain spans)."""

import threading
import time
from pathlib import Path

import pytest

from tests.integration.deploy.collector import Collector, gauge, logs, process, record, span, spans
from tests.integration.deploy.receiver import Receiver
from tests.integration.service.running import wait_for

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1800)]
ME = process("sampled", 0)


def test_spans(receiver: Receiver, tmp_path: Path, collector_binary: Path) -> None:
    """Telling spans at once; the rest of their trace once it is decided; of healthy traces the share, here none."""
    with Collector(tmp_path, receiver.url, "ffk_agent", TRACE_WAIT="5s", TRACE_PERCENT="0", INCIDENT_WINDOW="0s") as collector:
        start = time.monotonic()
        collector.send("traces", spans(ME, span(1, 0), span(1, 1), span(2, 0), span(3, 0)))
        collector.send("traces", spans(ME, span(1, 2, error=True), span(3, 1, exception="handled"), span(4, 0)))
        wait_for(lambda: receiver.spans() == ["span-1-2", "span-3-1"], 4, "the spans that tell, without waiting for their traces")
        wait_for(lambda: len(receiver.spans()) > 2, 30, "the others of their traces")
        assert time.monotonic() - start >= 5
        wait_for(
            lambda: receiver.spans() == ["span-1-0", "span-1-1", "span-1-2", "span-3-0", "span-3-1"], 10, "whole traces, each span once"
        )
        # A trace that was decided: what comes late to it follows, and an error of one that was left out still goes.
        collector.send("traces", spans(ME, span(1, 3), span(2, 1, error=True), span(4, 1)))
        late = ["span-1-0", "span-1-1", "span-1-2", "span-1-3", "span-2-1", "span-3-0", "span-3-1"]
        wait_for(lambda: receiver.spans() == late, 20, "a late span of a kept trace, and a late error")
    assert {request.authorization for request in receiver.requests} == {"Bearer ffk_agent"}


def test_slow_spans(receiver: Receiver, tmp_path: Path, collector_binary: Path) -> None:
    """A rank that waited fails nothing: its long spans go at once, whatever was decided about their trace, or bring it along."""
    with Collector(tmp_path, receiver.url, "ffk_agent", TRACE_WAIT="5s", TRACE_PERCENT="0", TRACE_SLOW="20s") as collector:
        collector.send("traces", spans(ME, span(1, 0), span(1, 1, lasted_s=20.5), span(2, 0, lasted_s=19.5)))
        wait_for(lambda: receiver.spans() == ["span-1-1"], 4, "the long span, without waiting for its trace")
        wait_for(lambda: receiver.spans() == ["span-1-0", "span-1-1"], 20, "the rest of its trace")
        collector.send("traces", spans(ME, span(2, 1), span(2, 2, lasted_s=60)))
        wait_for(lambda: receiver.spans() == ["span-1-0", "span-1-1", "span-2-2"], 20, "a long span of a trace that was left out")


def test_share_of_healthy_traces(receiver: Receiver, tmp_path: Path, collector_binary: Path) -> None:
    with Collector(tmp_path, receiver.url, "ffk_agent", TRACE_WAIT="1s", TRACE_PERCENT="50", INCIDENT_WINDOW="0s") as collector:
        collector.send("traces", spans(ME, *(span(trace, 0) for trace in range(1, 401)), span(999, 0, error=True)))
        wait_for(lambda: len(receiver.spans()) > 1, 30, "a share")
        threading.Event().wait(2)
        kept = len(receiver.spans()) - 1
        assert 120 < kept < 280, "about half of 400"


def test_records(receiver: Receiver, tmp_path: Path, collector_binary: Path) -> None:
    """Exceptions and named events of any severity and everything from warning up; plain chatter is left out."""
    with Collector(tmp_path, receiver.url, "ffk_agent") as collector:
        chatter = [record("info", 9), record("nothing said", 0), record("debug", 5)]
        kept = [record("warning", 13), record("error", 17), record("beat", 9, "train.heartbeat"), record("own", 9, "my.event")]
        older = record("older name", 9, **{"event.name": "train.phase"})
        raised = record("raised", 9, **{"exception.type": "ValueError"})
        collector.send("logs", logs(ME, *chatter, *kept, older, raised))
        wait_for(lambda: receiver.records() == ["beat", "error", "older name", "own", "raised", "warning"], 20, "what must be kept")


def test_records_from_information_up(receiver: Receiver, tmp_path: Path, collector_binary: Path) -> None:
    with Collector(tmp_path, receiver.url, "ffk_agent", LOGS_FROM="9") as collector:
        collector.send("logs", logs(ME, record("debug", 5), record("info", 9), record("warning", 13)))
        wait_for(lambda: receiver.records() == ["info", "warning"], 20, "what was asked for")


def test_points_are_never_sampled(receiver: Receiver, tmp_path: Path, collector_binary: Path) -> None:
    with Collector(tmp_path, receiver.url, "ffk_agent") as collector:
        wanted = [float(number) for number in range(2000)]
        for start in range(0, 2000, 100):
            collector.send(
                "metrics", gauge(ME, "train.loss", [(start + i + 1, value) for i, value in enumerate(wanted[start : start + 100])])
            )
        wait_for(lambda: receiver.points() == wanted, 20, "every point, once")


def test_numbered_batches_stay_whole(receiver: Receiver, tmp_path: Path, collector_binary: Path) -> None:
    """A request is never split: both halves would carry the number of the batch."""
    with Collector(tmp_path, receiver.url, "ffk_agent") as collector:
        large = gauge(ME, "train.loss", [(number + 1, 0.5) for number in range(60_000)])
        collector.send("metrics", large)
        wait_for(lambda: bool(receiver.points()), 20, "the request")
        assert len(receiver.points()) == 60_000
        assert len(receiver.requests) == 1
