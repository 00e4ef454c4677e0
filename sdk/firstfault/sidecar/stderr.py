"""Reads the file behind a job's stderr in a thread of its own: a file system that hangs must not stop the heartbeats."""

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from firstfault import conventions
from firstfault._sidecar_config import AttributeValue
from firstfault.redact import Redactor
from firstfault.sidecar.handover import StderrSource
from firstfault.sidecar.lines import RateLimit, TracebackReader, severity_of
from firstfault.sidecar.records import record
from firstfault.sidecar.send import Sender
from firstfault.sidecar.tail import StderrTail

_PERIOD_S = 0.5
_HUNG_S = 0.25
"""Longest wait for a reading thread that does not come back."""
_LINES_PER_S, _LINES_BURST = 5.0, 50


class StderrWatch:
    """Sends lines that matter as they come, and keeps the last ones of all."""

    def __init__(
        self, source: StderrSource, redactor: Redactor, sender: Sender, whereabouts: Callable[[], Mapping[str, AttributeValue | None]]
    ) -> None:
        """`whereabouts` gives attributes that say where training stands now."""
        self.status = source.status
        """Value of `conventions.STDERR_STATUS`."""
        self._path = source.path
        self._redactor = redactor
        self._sender = sender
        self._whereabouts = whereabouts
        self._tail = StderrTail(source.fd, source.offset) if source.fd >= 0 else None
        self._rate = RateLimit(_LINES_PER_S, _LINES_BURST)
        self._tracebacks = TracebackReader()
        self._reading = threading.Lock()
        self._over = threading.Event()

    def start(self) -> None:
        """Follow the file from now on, where there is one."""
        if self._tail is not None:
            threading.Thread(target=self._follow, name="firstfault-stderr", daemon=True).start()

    def catch_up(self) -> None:
        """Read what is there now."""
        self._read(lambda tail: self._all_new(tail))

    def finish(self) -> None:
        """The process has ended: read the rest, with a last line that never got its end."""
        self._over.set()
        self._read(lambda tail: [*self._all_new(tail), *tail.finish()])
        if self._tail is not None and self._tail.skipped_bytes:
            self._sender.dropped["stderr_skipped_bytes"] = self._tail.skipped_bytes

    def last(self) -> list[str]:
        """The last lines, oldest first, not redacted."""
        return [] if self._tail is None else self._tail.last()

    def last_redacted(self) -> list[str]:
        """The last lines without secrets: redacted as one text, so that a key block over several lines is seen as one."""
        text = self._redactor.text("\n".join(self.last()))
        return text.split("\n") if text else []

    def _follow(self) -> None:
        while not self._over.wait(_PERIOD_S):
            try:
                self.catch_up()
            except Exception:
                self._sender.dropped["sidecar_error"] += 1

    @staticmethod
    def _all_new(tail: StderrTail) -> list[str]:
        found: list[str] = []
        while lines := tail.read():
            found += lines
        return found

    def _read(self, read: Callable[[StderrTail], list[str]]) -> None:
        if self._tail is None:
            return
        if not self._reading.acquire(timeout=_HUNG_S):
            self.status = "not_seen: unreadable"
            return
        try:
            lines = [line for line in read(self._tail) if not self._tracebacks.covers(line)]
            self.status = "seen"
        except OSError:
            self._tail, self.status = None, "not_seen: unreadable"
            return
        finally:
            self._reading.release()
        if records := self._worthy(lines):
            self._sender.keep(records)

    def _worthy(self, lines: Iterable[str]) -> list[dict[str, Any]]:
        found = []
        for line in lines:
            severity = severity_of(line)
            if severity is None:
                continue
            if self._rate.allow(time.monotonic()):
                attributes = {conventions.LOG_PATH: self._path, conventions.LOG_STREAM: "stderr", **self._whereabouts()}
                found.append(record(conventions.LOG, time.time_ns(), severity, attributes, self._redactor.text(line)))
            else:
                self._sender.dropped["stderr_rate"] += 1
        return found
