"""What the service says about itself: structured log lines on stderr, and a Prometheus registry that the caller owns."""

import logging
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, TextIO, TypeAlias

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from structlog.typing import EventDict, FilteringBoundLogger, WrappedLogger

LogFormat: TypeAlias = Literal["console", "json"]
LogLevel: TypeAlias = Literal["debug", "info", "warning", "error"]

_SECRET_WORDS = ("secret", "authorization", "api_key", "password")
_HOPS_S = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2, 3, 5, 10, 30, 60, 300)
_LATENCIES_S = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Lines:
    """Writes lines to a stream. One that is gone (closed terminal, full disk) costs the line, never the caller; losses are counted."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._lock = threading.Lock()
        self.lost = 0

    def msg(self, message: str) -> None:
        """Write one line."""
        with self._lock:
            try:
                self._stream.write(message + "\n")
                self._stream.flush()
            except (OSError, ValueError):
                self.lost += 1

    log = debug = info = warn = warning = err = error = critical = exception = fatal = failure = msg


def logger(level: LogLevel = "info", form: LogFormat = "console", lines: Lines | None = None) -> FilteringBoundLogger:
    """A logger that writes one line an event (default: to stderr); values of keys that name a secret are masked."""
    # Plain tracebacks: with the values of variables they would show keys.
    console = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), pad_event_to=0, exception_formatter=structlog.dev.plain_traceback)
    render: Any = structlog.processors.JSONRenderer() if form == "json" else console
    processors: list[Any] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _mask,
        _no_control,
    ]
    if form == "json":
        processors.append(structlog.processors.format_exc_info)
    made: FilteringBoundLogger = structlog.wrap_logger(
        lines or Lines(sys.stderr),
        processors=[*processors, render],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
    )
    return made


class Bridge(logging.Handler):
    """Sends records of the standard library's loggers to ours."""

    def __init__(self, log: FilteringBoundLogger) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Pass one record on."""
        write = (
            self._log.error
            if record.levelno >= logging.ERROR
            else self._log.warning
            if record.levelno >= logging.WARNING
            else self._log.info
        )
        details = {"exc_info": record.exc_info} if record.exc_info else {}
        write(record.getMessage(), source=record.name, **details)


@contextmanager
def bridged(log: FilteringBoundLogger) -> Iterator[None]:
    """Within it the loggers of the service and of its libraries write to `log`, and to nothing else."""
    bridge = Bridge(log)
    loggers = [logging.getLogger(name) for name in ("firstfault_server", "asyncio", "uvicorn.error", "opentelemetry")]
    before = [each.propagate for each in loggers]
    for each in loggers:
        each.addHandler(bridge)
        each.propagate = False
    try:
        yield
    finally:
        for each, propagate in zip(loggers, before, strict=True):
            each.removeHandler(bridge)
            each.propagate = propagate


def _mask(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    for key in event:
        if any(word in key.lower() for word in _SECRET_WORDS):
            event[key] = "***"
    return event


def _no_control(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    # Parts of a line may come from clients: a terminal must not obey them.
    for key, value in event.items():
        if isinstance(value, str) and not value.isprintable():
            event[key] = "".join(character if character.isprintable() else repr(character)[1:-1] for character in value)
    return event


class ApiMetrics:
    """What the API counts."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.requests = Counter(
            "firstfault_api_requests_total", "Requests by route and status.", ["method", "route", "status"], registry=registry
        )
        self.latency = Histogram(
            "firstfault_api_request_seconds", "Time to answer by route.", ["method", "route"], buckets=_LATENCIES_S, registry=registry
        )


class HopMetrics:
    """How long each hop of what was received takes; the services that make a hop measure it under one name."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._hops = Histogram(
            "firstfault_hop_seconds",
            "Time of a hop: receipt_to_detected, detected_to_stored, receipt_to_stored, settled_to_planned, planned_to_delivered",
            ["hop", "kind"],
            buckets=_HOPS_S,
            registry=registry,
        )

    def took(self, hop: str, kind: str, spans_ns: Iterable[int]) -> None:
        """Times of a hop in nanoseconds; clocks of hosts differ, so that less than nothing counts as nothing."""
        seen = self._hops.labels(hop, kind)
        for span_ns in spans_ns:
            seen.observe(max(span_ns, 0) / 1e9)


class AlertMetrics:
    """What the alerter counts."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.messages = Counter("firstfault_alert_messages_total", "Messages put into the outbox.", ["kind"], registry=registry)
        self.conflicts = Counter(
            "firstfault_alert_conflicts_total", "Messages planned again because somebody else took their number.", registry=registry
        )
        self.tries = Counter(
            "firstfault_alert_tries_total", "Tries to deliver a message by result: delivered, retry, failed.", ["result"], registry=registry
        )
        self.errors = Counter(
            "firstfault_alert_loop_errors_total", "Rounds of the delivery loop that failed, by error.", ["error"], registry=registry
        )
        self.hops = HopMetrics(registry)


class ConsumingMetrics:
    """What loops over topics count."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._handled = Counter(
            "firstfault_consumed_records", "Records of topics that were handled, by loop and topic", ["loop", "topic"], registry=registry
        )
        self._waited = Counter(
            "firstfault_consumer_waits", "Tries after which a loop waited, by what it waited for: store, kafka, bug", ["loop", "reason"],
            registry=registry,
        )  # fmt: skip
        self._lag = Gauge("firstfault_consumer_lag_records", "Records still to be handled", ["loop", "topic"], registry=registry)

    def handled(self, loop: str, topic: str, records: int) -> None:
        """Records were handled."""
        self._handled.labels(loop, topic).inc(records)

    def waited(self, loop: str, reason: str) -> None:
        """A batch is kept, or none could be read."""
        self._waited.labels(loop, reason).inc()

    def measured(self, loop: str, topic: str, lag: int) -> None:
        """Records still to be handled."""
        self._lag.labels(loop, topic).set(lag)


def registry(lines: Lines) -> CollectorRegistry:
    """A registry with process and platform figures, and the count of log lines that could not be written."""
    from prometheus_client import GCCollector, PlatformCollector, ProcessCollector

    made = CollectorRegistry()
    lost = Gauge("firstfault_log_lines_lost", "Log lines that could not be written.", registry=made)
    lost.set_function(lambda: lines.lost)
    ProcessCollector(registry=made)
    PlatformCollector(registry=made)
    GCCollector(registry=made)
    return made
