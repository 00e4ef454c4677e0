"""The sidecar's loop: heartbeats while the process lives, lines that matter from its stderr, one exit record when it has ended."""

import signal
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from firstfault import conventions
from firstfault._beacon import BeaconReader, Exit, Reading
from firstfault._sidecar_config import AttributeValue
from firstfault.redact import Redactor
from firstfault.sidecar.death import Status, WatchedProcess
from firstfault.sidecar.ending import Ending, Evidence, ending_of, scheduler_words, status_from_launcher
from firstfault.sidecar.handover import Handover
from firstfault.sidecar.kernel import KernelEvidence
from firstfault.sidecar.launched import LaunchDir
from firstfault.sidecar.lines import Severity
from firstfault.sidecar.records import record
from firstfault.sidecar.send import Sender
from firstfault.sidecar.spooled import deliver_later, settle_spool
from firstfault.sidecar.stderr import StderrWatch

_LAST_WORDS_S = 3.0
"""How long an unknown status waits for the launcher's words in stderr; torchrun looks at its workers ten times a second."""
_DELIVERY_S = 4.5
_SPOOL_DELIVERY_S = 1.5
"""With the two above this ends the sidecar within ten seconds of its process, unless the service is away."""
_SEVERITY = {"finished": Severity.INFO, "failed": Severity.ERROR, "killed": Severity.ERROR}


def watch(handover: Handover, process: WatchedProcess) -> None:
    """Watch the process until it ends, report, return. Errors go to the debug log of the hand-over, if there is one."""
    launched = LaunchDir(handover.launch_dir) if handover.launch_dir else None
    try:
        Sidecar(handover, process, launched).run()
    except Exception:
        _note(handover.debug_log)
    finally:
        if launched is not None:
            launched.unmark(handover.config.pid)


def _note(debug_log: str) -> None:
    """Keep the present exception for people; the sidecar has no other place to say it."""
    if debug_log:
        with Path(debug_log).open("a", encoding="utf-8") as log:
            log.write(traceback.format_exc())


class Sidecar:
    """One watched process and what is known of it."""

    def __init__(self, handover: Handover, process: WatchedProcess, launched: LaunchDir | None) -> None:
        """Opens what has to be open before the process ends. Raises ValueError for an unusable endpoint."""
        config = handover.config
        self._handover = handover
        self._config = config
        self._process = process
        self._redactor = Redactor(handover.secrets)
        self._launched = launched
        self._sender = Sender(config.endpoint, config.headers, config.resource)
        self._beacon = _open_beacon(config.beacon_fd, config.beacon_path)
        self._kernel = KernelEvidence(config.pid)
        self._stderr = StderrWatch(handover.stderr, self._redactor, self._sender, self._whereabouts)

    def run(self) -> None:
        """Watch, report, deliver or spool."""
        self._stderr.start()
        beat_at = 0.0
        while True:
            now = time.monotonic()
            if now >= beat_at:
                if self._process.replaced():
                    self._report_replaced()
                    break
                self._guard(self._beat)
                beat_at = now + self._config.heartbeat_interval_s
            if self._process.wait(beat_at - now):
                self._report(time.time_ns())
                break
        self._deliver()

    def _guard(self, act: Callable[[], None]) -> None:
        """An error in one beat or line must not cost the exit record: note it, count it, go on."""
        try:
            act()
        except Exception:
            self._sender.dropped["sidecar_error"] += 1
            _note(self._handover.debug_log)

    def _beat(self) -> None:
        self._sender.heartbeat([self._heartbeat()])

    def _heartbeat(self) -> dict[str, Any]:
        reading = self._read_beacon()
        now_ns = time.time_ns()
        attributes: dict[str, AttributeValue | None] = {conventions.HEARTBEAT_STATE: self._process.state()}
        if reading is not None:
            age_ns = None if reading.progress_ns is None else now_ns - reading.progress_ns
            attributes[conventions.HEARTBEAT_PROGRESS_AGE] = None if age_ns is None else max(age_ns, 0) / 1e9
            attributes.update(_place(reading))
        return record(conventions.HEARTBEAT, now_ns, Severity.INFO, attributes)

    def _read_beacon(self) -> Reading | None:
        return None if self._beacon is None else self._beacon.read()

    def _whereabouts(self) -> dict[str, AttributeValue | None]:
        reading = self._read_beacon()
        return {} if reading is None else _place(reading)

    def _report(self, died_ns: int) -> None:
        """Send the exit record as soon as the status is known, or the time for finding it is over.

        With a known status it goes at once: a scheduler may be about to kill whatever is left of the job.
        """
        deadline = time.monotonic() + _LAST_WORDS_S
        self._guard(self._stderr.catch_up)
        while (status := self._status()) is None and not self._explained() and time.monotonic() < deadline:
            time.sleep(0.05)
            self._guard(self._stderr.catch_up)
        self._guard(self._stderr.finish)
        oom, kernel_line = self._kernel.oom() if status is None or status.signal == signal.SIGKILL else ("", "")
        evidence = Evidence(
            pid=self._config.pid,
            died_at_s=died_ns / 1e9,
            status=status,
            beacon=self._read_beacon(),
            lines=self._stderr.last(),
            oom=oom,
            end_time_s=self._handover.end_time_s,
        )
        ending = ending_of(evidence)
        records = [self._exit_record(ending, died_ns)]
        if kernel_line:
            attributes: dict[str, AttributeValue | None] = {conventions.LOG_PATH: "/dev/kmsg", **self._whereabouts()}
            records.insert(0, record(conventions.LOG, died_ns, Severity.ERROR, attributes, self._redactor.text(kernel_line)))
        if not (ending.known_already and ending.state == "finished"):
            self._sender.keep(records)

    def _report_replaced(self) -> None:
        """The program made way for another one, which has a sidecar of its own if it wants one."""
        self._guard(self._stderr.finish)
        ending = Ending(state="finished", code=None, signal=None, source="sidecar", reason="the process executed another program")
        self._sender.keep([self._exit_record(ending, time.time_ns())])

    def _status(self) -> Status | None:
        if self._launched is not None and (left := self._launched.read(self._config.pid)) is not None:
            return left
        exact = self._process.status()
        if exact is not None:
            return exact
        # The C library's word on an orderly exit; a crash in a destructor after it would be seen only by the two above.
        reading = self._read_beacon()
        if reading is not None and reading.status is not None:
            return Status(code=reading.status)
        return status_from_launcher(self._stderr.last(), self._config.pid)

    def _explained(self) -> bool:
        """The process itself or the scheduler said why, so that nobody needs to wait for the status."""
        reading = self._read_beacon()
        return (reading is not None and reading.exit is not Exit.RUNNING) or scheduler_words(self._stderr.last()) is not None

    def _exit_record(self, ending: Ending, died_ns: int) -> dict[str, Any]:
        attributes: dict[str, AttributeValue | None] = {
            conventions.EXIT_STATE: ending.state,
            conventions.EXIT_CODE: ending.code,
            conventions.EXIT_SIGNAL: ending.signal,
            conventions.EXIT_SOURCE: ending.source,
            conventions.EXIT_REASON: self._redactor.text(ending.reason)[:1024] or None,
            conventions.STDERR_TAIL: self._stderr.last_redacted() or None,
            conventions.STDERR_STATUS: self._stderr.status,
            **self._whereabouts(),
        }
        severity = _SEVERITY.get(ending.state, Severity.WARN)
        return record(conventions.EXIT, died_ns, severity, attributes, _sentence(ending))

    def _deliver(self) -> None:
        unsent = self._sender.drain(_DELIVERY_S)
        if self._config.spool_dir and not settle_spool(self._config, unsent, _SPOOL_DELIVERY_S) and self._config.linger_s:
            # All is safe on disk: from here on whoever stops the job may stop this process, too.
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                signal.signal(number, signal.SIG_DFL)
            deliver_later(self._config, self._config.linger_s)


def _open_beacon(fd: int, path: str) -> BeaconReader | None:
    """The page by descriptor, else by path; None when the process has none or is gone already."""
    targets: list[int | str] = [fd] if fd >= 0 else []
    for target in [*targets, *([path] if path else [])]:
        try:
            return BeaconReader(target)
        except (OSError, ValueError):
            continue
    return None


def _place(reading: Reading) -> dict[str, AttributeValue | None]:
    return {conventions.EVENT_STEP: reading.step, conventions.PHASE_NAME: reading.phase or None}


def _sentence(ending: Ending) -> str:
    return f"{ending.state}: {ending.reason}" if ending.reason else ending.state
