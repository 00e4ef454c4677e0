"""One process's reporting: ties identity, beacon, recorder and exporter together, and keeps where training stands."""

import re
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from firstfault import _capture, stack
from firstfault import conventions as c
from firstfault._beacon import Beacon, Cell, Exit
from firstfault._export import Exporter, ExportSettings
from firstfault._guard import LOSSES, guarded
from firstfault._identity import Given, ProcessFacts, identify
from firstfault._recorder import Entry, Recorder, number_of
from firstfault._sidecar_config import AttributeValue, SidecarConfig
from firstfault._spool import Spool, default_root, folder_for
from firstfault.redact import Redactor

DEFAULT_ENDPOINT = "http://127.0.0.1:4318"
INFO, WARNING, ERROR, FATAL = 9, 13, 17, 21
"""OpenTelemetry severity numbers."""
_ITEMS_LIMIT = 100
# Exceptions cannot be referred to weakly and ids are used again, so what we know about one is kept with it.
_PHASE_MARK, _REPORTED_MARK = "_firstfault_phase", "_firstfault_reported"
_NO_DETACH: Callable[[], None] | None = None


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What `init` was told, and the environment."""

    endpoint: str
    headers: Mapping[str, str]
    given: Given
    sidecar: bool = True
    protocol: str = ""
    interval_s: float = 1.0
    spool_root: Path | None = None
    exit_wait_s: float = 1.5
    sidecar_linger_s: float = 600.0

    @staticmethod
    def read(environ: Mapping[str, str], given: Given, endpoint: str | None, api_key: str | None, sidecar: bool) -> "Settings":
        """Arguments of `init` before FIRSTFAULT_* before OTEL_*."""
        own = endpoint or environ.get("FIRSTFAULT_ENDPOINT")
        headers = {} if own else dict(_otel_headers(environ))
        if key := api_key or environ.get("FIRSTFAULT_API_KEY"):
            headers["authorization"] = f"Bearer {key}"
        return Settings(
            endpoint=own or environ.get("OTEL_EXPORTER_OTLP_ENDPOINT") or DEFAULT_ENDPOINT,
            headers=headers,
            given=given,
            sidecar=sidecar and environ.get("FIRSTFAULT_SIDECAR") != "0",
            protocol=environ.get("FIRSTFAULT_OTLP_PROTOCOL", ""),
            spool_root=default_root(environ),
            exit_wait_s=_seconds(environ.get("FIRSTFAULT_EXIT_WAIT_S", ""), default=1.5),
            sidecar_linger_s=_seconds(environ.get("FIRSTFAULT_SIDECAR_LINGER_S", ""), default=600.0),
        )


class Client:
    """Reports this process. Made by `init`, or in a forked child when the child itself has something to say."""

    def __init__(self, settings: Settings, environ: Mapping[str, str], facts: ProcessFacts) -> None:
        """Raises ValueError for an endpoint that is no HTTP address. Starts neither thread nor process."""
        self.settings = settings
        self.pid = facts.pid
        self.redactor = Redactor.from_environ(environ)
        self.resource = identify(environ, facts, settings.given)
        self.beacon = _beacon() if settings.given.role != "auxiliary" else None
        self.recorder = Recorder(self.beacon)
        root = settings.spool_root
        self._spool = Spool(folder_for(root, settings.endpoint, settings.headers)) if root is not None else None
        self.exporter = Exporter(
            self.recorder,
            ExportSettings(
                endpoint=settings.endpoint,
                headers=settings.headers,
                resource=self.resource,
                redactor=self.redactor,
                protocol=settings.protocol,
                interval_s=settings.interval_s,
                exit_wait_s=settings.exit_wait_s,
            ),
            self._spool,
        )
        self._phases: list[tuple[str, int, float | None]] = []
        self._exit_code: int | None = None
        self._detach_status: Callable[[], None] | None = None
        self.ended = False

    def start(self) -> None:
        """Start the exporter's thread, and the sidecar of a process that is watched."""
        self.exporter.start()
        if self.beacon is not None and self.settings.sidecar:
            self._detach_status = self._install_status(self.beacon)
            self._start_sidecar(self.beacon)

    def forget_parent(self) -> None:
        """In a forked child: its exit status must not show on the parent's page."""
        if self._detach_status is not None:
            self._detach_status()
            self._detach_status = None

    @guarded(_NO_DETACH)
    def _install_status(self, beacon: Beacon) -> Callable[[], None] | None:
        try:
            from firstfault.hooks import status
        except ImportError:  # a Python without ctypes
            return None
        return status.install(beacon.fd, 8 * int(Cell.STATUS))

    @guarded(None)
    def _start_sidecar(self, beacon: Beacon) -> None:
        # Imported here: a process without a sidecar need not load what starts one.
        from firstfault.sidecar.start import start_sidecar

        config = SidecarConfig(
            pid=self.pid,
            resource=self.resource,
            endpoint=self.settings.endpoint,
            headers=self.settings.headers,
            beacon_path=beacon.path,
            beacon_fd=beacon.fd,
            spool_dir=str(self._spool.folder) if self._spool is not None else "",
            linger_s=self.settings.sidecar_linger_s,
        )
        try:
            start_sidecar(config)
        except (OSError, RuntimeError) as error:
            LOSSES.count(f"no_sidecar:{type(error).__name__}")

    # ---- what the user says ----

    def event(self, name: str, attributes: Mapping[str, Any] | None, severity: int = INFO) -> None:
        """Queue a log record of the user's own."""
        now = time.time_ns()
        self.recorder.progress(now)
        self._add(now, str(name), severity, {str(key): plain(value) for key, value in list((attributes or {}).items())[:_ITEMS_LIMIT]})

    def phase_begins(self, name: str, expect_s: float | None) -> None:
        """Enter a phase."""
        now = time.time_ns()
        self.recorder.progress(now)
        self._phases.append((name, now, expect_s))
        self._phase_record(now, name, "begin", expect_s)

    def phase_ends(self, name: str, error: BaseException | None) -> None:
        """Leave a phase; `error` is what left it."""
        now = time.time_ns()
        self.recorder.progress(now)
        if error is not None and _mark(error, _PHASE_MARK) is None:
            object.__setattr__(error, _PHASE_MARK, name)
        self._phase_record(now, name, "end", None)
        # Phases of several threads may interleave: the innermost of that name goes.
        for index in range(len(self._phases) - 1, -1, -1):
            if self._phases[index][0] == name:
                del self._phases[index]
                break
        self._show_phase()

    def _phase_record(self, now: int, name: str, state: str, expect_s: float | None) -> None:
        depth = max(len(self._phases) - 1, 0)
        attributes = {c.PHASE_NAME: name, c.PHASE_STATE: state, c.PHASE_EXPECT_S: expect_s, c.PHASE_DEPTH: depth}
        self._add(now, c.PHASE, INFO, attributes)
        self._show_phase()

    def _show_phase(self) -> None:
        if self.beacon is not None:
            name, since, expect_s = self._phases[-1] if self._phases else ("", None, None)
            self.beacon.phase(name, len(self._phases), since, expect_s)

    def exception(self, error: BaseException, origin: str, fatal: bool, thread: str = "") -> None:
        """Queue an exception, once, and wake the exporter."""
        if _mark(error, _REPORTED_MARK) is not None and not fatal:
            return
        object.__setattr__(error, _REPORTED_MARK, True)
        attributes: dict[str, Any] = {c.EXCEPTION_FATAL: fatal, c.EXCEPTION_ORIGIN: origin, c.THREAD: thread or None}
        if left := self._phase_left_by(error):
            attributes[c.PHASE_NAME] = left
        self._add(time.time_ns(), c.EXCEPTION, FATAL if fatal else ERROR, attributes, _capture.capture(error))
        self.exporter.wake()

    def handled_before_exit(self, captured: _capture.Captured) -> None:
        """Queue the exception that was being handled when the program called `sys.exit` with a nonzero status."""
        self._add(time.time_ns(), c.EXCEPTION, FATAL, {c.EXCEPTION_FATAL: True, c.EXCEPTION_ORIGIN: "captured"}, captured)

    def _phase_left_by(self, error: BaseException) -> str:
        """The phase an exception came from: by the time it is reported, the `with` block has ended."""
        link: BaseException | None = error
        for _ in range(5):
            if link is None:
                break
            if isinstance(name := _mark(link, _PHASE_MARK), str):
                return name
            link = link.__cause__ or link.__context__
        return ""

    def _add(self, now: int, event: str, severity: int, attributes: dict[str, Any], exception: _capture.Captured | None = None) -> None:
        attributes.setdefault(c.EVENT_STEP, self.recorder.last_step)
        if self._phases:
            attributes.setdefault(c.PHASE_NAME, self._phases[-1][0])
        trace_id, span_id = _current_span()
        self.recorder.add(Entry(now, event, severity, attributes=attributes, exception=exception, trace_id=trace_id, span_id=span_id))

    # ---- the end ----

    def ends(self, state: str, code: int | None, source: str, reason: str, signal_number: int | None = None) -> None:
        """Say how the process ends; the first word counts."""
        if self.ended:
            return
        self.ended = True
        reason = self.redactor.text(stack.clipped(stack.well_formed(reason), 500))
        if self.beacon is not None:
            self.beacon.exit(Exit.FINISHED if state == "finished" else Exit.FAILED, code, reason)
        attributes = {
            c.EXIT_STATE: state,
            c.EXIT_CODE: code,
            c.EXIT_SIGNAL: signal_number,
            c.EXIT_SOURCE: source,
            c.EXIT_REASON: reason or None,
        }
        self._add(time.time_ns(), c.EXIT, INFO if state == "finished" else FATAL, attributes)
        self.exporter.wake()

    def stop(self) -> bool:
        """Deliver what the time at the end allows, keep the rest, and tell the sidecar what is left for it to say."""
        delivered = self.exporter.stop()
        if self.beacon is not None and self.exporter.exit_delivered:
            self.beacon.exit_sent()
        return delivered


def _beacon() -> Beacon | None:
    try:
        return Beacon()
    except (OSError, ValueError) as error:
        LOSSES.count(f"no_beacon:{type(error).__name__}")
        return None


def _mark(error: BaseException, name: str) -> Any:
    """What we noted on an exception, past any `__getattr__` of its class."""
    return BaseException.__getattribute__(error, "__dict__").get(name)


def _current_span() -> tuple[int, int]:
    """Trace and span of OpenTelemetry, where the program uses it; (0, 0) outside of a span."""
    trace = sys.modules.get("opentelemetry.trace")
    current = getattr(trace, "get_current_span", None)
    if current is None:
        return 0, 0
    context = current().get_span_context()
    return (context.trace_id, context.span_id) if context.is_valid else (0, 0)


def plain(value: Any) -> AttributeValue:
    """A value of the user's as an attribute: texts and numbers as they are, lists of them bounded, of anything else the type."""
    if type(value) not in (list, tuple, set, frozenset):
        return _plain_scalar(value)
    # Lists in lists tell only their type: they could hold each other.
    items = [_plain_scalar(item) for item in list(value)[:_ITEMS_LIMIT]]
    # OTLP lists hold one type.
    return items if len({type(item) for item in items}) <= 1 else [str(item) for item in items]  # type: ignore[return-value]


def _plain_scalar(value: Any) -> str | bool | int | float:
    if type(value) is str:
        return stack.clipped(value, 65536)
    if type(value) is bool:
        return value
    number = number_of(value)
    return _capture.describe(value) if isinstance(number, str) else number


def _otel_headers(environ: Mapping[str, str]) -> list[tuple[str, str]]:
    """OTEL_EXPORTER_OTLP_HEADERS: key=value pairs with commas between."""
    pairs = [pair.partition("=") for pair in environ.get("OTEL_EXPORTER_OTLP_HEADERS", "").split(",")]
    return [(name.strip().lower(), value.strip()) for name, equals, value in pairs if equals and re.fullmatch(r"[\w-]+", name.strip())]


def is_disabled(environ: Mapping[str, str]) -> bool:
    """FIRSTFAULT_DISABLED=1."""
    return environ.get("FIRSTFAULT_DISABLED", "").strip().lower() in ("1", "true", "yes", "on")


def _seconds(text: str, default: float) -> float:
    """A length of time from the environment; what is none gives the default."""
    try:
        seconds = float(text)
    except ValueError:
        return default
    return seconds if 0 <= seconds < 3600 else default
