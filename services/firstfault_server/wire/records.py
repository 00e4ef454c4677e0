"""Log records and spans to `LogRecord`: event names, severity, bounded attributes, exceptions on spans."""

from collections.abc import Iterator
from typing import Final

from opentelemetry.proto.logs.v1 import logs_pb2
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from firstfault import conventions as names
from firstfault_server.core.model import Attribute, LogRecord
from firstfault_server.wire.attributes import Budget, attribute, attributes, conform, string, text, whole_number
from firstfault_server.wire.times import Window

EVENT_NAME_KEY: Final = "event.name"
"""Where senders put the event name before it became a field."""
_SEVERITY: Final = {"TRACE": 1, "DEBUG": 5, "INFO": 9, "WARN": 13, "WARNING": 13, "ERROR": 17, "CRITICAL": 21, "FATAL": 21}
_ERROR: Final = 17


def event_names(record: logs_pb2.LogRecord) -> Iterator[str]:
    """Every name that `from_log` could take for the event's: the field, and the older attribute each time that it is there."""
    yield record.event_name
    for pair in record.attributes:
        if pair.key == EVENT_NAME_KEY:
            yield string(attribute(pair.value, Budget()))


def from_log(record: logs_pb2.LogRecord, window: Window) -> LogRecord:
    """A log record; one that carries an exception without saying so is called `exception`."""
    budget = Budget()
    found = attributes(record.attributes, budget)
    name = record.event_name or string(found.pop(EVENT_NAME_KEY, None))
    if not name and names.EXCEPTION_TYPE in found:
        name = names.EXCEPTION
    body = attribute(record.body, budget)
    time = _time(record.time_unix_nano or record.observed_time_unix_nano, window, found)
    _mend(found, budget)
    return LogRecord(
        time_ns=time,
        event_name=name[:256],
        severity=_severity(record),
        body="" if body is None else text(body),
        attributes=found,
        trace_id=record.trace_id.hex() if len(record.trace_id) == 16 else "",
        span_id=record.span_id.hex() if len(record.span_id) == 8 else "",
    )


def from_span(span: Span, window: Window) -> Iterator[LogRecord]:
    """The exceptions recorded on a span; the rest of a span is not kept."""
    step: int | None = None
    for pair in span.attributes:
        if pair.key == names.EVENT_STEP:
            step = whole_number(attribute(pair.value, Budget()))
    for event in span.events:
        if event.name != names.EXCEPTION:
            continue
        budget = Budget()
        found = attributes(event.attributes, budget)
        found[names.EXCEPTION_ORIGIN] = "span"
        if step is not None:
            found.setdefault(names.EVENT_STEP, step)
        time = _time(event.time_unix_nano or span.end_time_unix_nano, window, found)
        _mend(found, budget)
        yield LogRecord(
            time_ns=time,
            event_name=names.EXCEPTION,
            severity=_ERROR,
            body=string(found.get(names.EXCEPTION_MESSAGE)),
            attributes=found,
            trace_id=span.trace_id.hex() if len(span.trace_id) == 16 else "",
            span_id=span.span_id.hex() if len(span.span_id) == 8 else "",
        )


def _time(sent: int, window: Window, found: dict[str, Attribute]) -> int:
    found.pop(names.CLAMPED, None)
    if window.holds(sent):
        return sent
    found[names.CLAMPED] = True
    return window.received_ns


def _mend(found: dict[str, Attribute], budget: Budget) -> None:
    """Give conventional attributes their types, and say what was mended."""
    mended = [string(found[names.REPAIRED])] if names.REPAIRED in found else []
    if conform(found):
        mended.append("type")
    if budget.cut:
        mended.append("cut")
    if mended:
        found[names.REPAIRED] = ", ".join(mended)


def _severity(record: logs_pb2.LogRecord) -> int:
    number = record.severity_number
    if 1 <= number <= 24:
        return int(number)
    return _SEVERITY.get(record.severity_text.strip().upper(), 0)
