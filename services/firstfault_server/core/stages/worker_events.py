"""Log records of a process as events: what the text says by itself is read here, once."""

import json
from collections.abc import Mapping
from typing import Any, Final

from firstfault import conventions as names
from firstfault_server.core import model
from firstfault_server.core.cause.exits import ending
from firstfault_server.core.stages.ids import digest
from firstfault_server.core.stages.reading import Reader, Reading

SEVERITY_WARNING: Final = 13
SEVERITY_ERROR: Final = 17
SEVERITY_FATAL: Final = 21
TAIL_LINE: Final = "firstfault.stderr.telling"
"""Attribute of exit events: the line of the stderr tail that says most."""
_TAIL_READ: Final = 40
_LARGEST: Final = 2**62
_STOP_TYPES: Final = frozenset({"KeyboardInterrupt"})


def event_of(batch: model.Batch, place: int, record: model.LogRecord, time_ns: int, reader: Reader) -> model.Event | None:
    """The event a record stands for; None when it only moves the worker's state (heartbeats, phases, plain collectives)."""
    name, attributes = record.event_name, record.attributes
    severity = record.severity
    if name in (names.HEARTBEAT, names.PHASE, names.CHECKPOINT):
        return None
    if name == names.COLLECTIVE and not attributes.get(names.COLLECTIVE_MISSING):
        return None
    if name == names.EXCEPTION:
        severity = max(severity or SEVERITY_ERROR, SEVERITY_FATAL if attributes.get(names.EXCEPTION_FATAL) else 0)
    known = name in (names.EXCEPTION, names.EXIT, names.LOG, names.COLLECTIVE, names.XID, names.OOM_KILL, names.KERNEL)
    if not known and severity < SEVERITY_WARNING:
        return None
    event = model.Event(
        id=event_id(batch, place, record),
        identity=batch.identity,
        time_ns=time_ns,
        received_ns=batch.received_ns,
        event_name=name,
        severity=severity,
        body=record.body,
        step=integer(attributes.get(names.EVENT_STEP)),
        phase=str(attributes.get(names.PHASE_NAME, "")),
        trace_id=record.trace_id,
        span_id=record.span_id,
        attributes=attributes,
    )
    if name == names.EXCEPTION:
        _read_exception(event, attributes, reader)
    elif name == names.EXIT:
        _read_tail(event, attributes, reader)
    elif name == names.COLLECTIVE:
        event.symptom, event.text_role = "collective_timeout", "waiting"
    elif name == names.XID:
        code = integer(attributes.get(names.XID_CODE))
        reading = reader.line(record.body)
        if code is not None and not reading.symptom:
            reading = reader.line(f"NVRM: Xid (PCI:0000:00:00): {code}")
        _take(event, reading)
    elif record.body:
        _take(event, reader.line(record.body))
    if name == names.OOM_KILL:
        event.symptom = "host_oom"
    if name == names.LOG and not event.symptom and severity < SEVERITY_WARNING:
        return None
    return event


def event_id(batch: model.Batch, place: int, record: model.LogRecord) -> str:
    """Id from the place in the sender's stream, or from the content where the sender has none."""
    who = batch.identity
    if batch.sequence is not None:
        return digest("event", who.tenant, who.run, who.process, batch.sender, batch.sequence, place)
    content = json.dumps(record.attributes, sort_keys=True, default=str)
    return digest("event", who.tenant, who.run, who.process, record.event_name, record.time_ns, record.body, content)


def integer(value: Any) -> int | None:
    """An attribute as an integer of 63 bits; None for what is none (senders put numbers into strings)."""
    read: int | None = None
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        read = value
    elif isinstance(value, float) and value.is_integer():
        read = int(value)
    elif isinstance(value, str) and len(value) <= 20:
        try:
            read = int(value)
        except ValueError:
            return None
    return read if read is not None and -_LARGEST <= read <= _LARGEST else None


def number(value: Any) -> float | None:
    """An attribute as a finite number of seconds or bytes; None for what is none."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        read = float(value)
    except ValueError:
        return None
    return read if read - read == 0.0 else None


def _read_exception(event: model.Event, attributes: Mapping[str, Any], reader: Reader) -> None:
    kind = str(attributes.get(names.EXCEPTION_TYPE, ""))
    message = str(attributes.get(names.EXCEPTION_MESSAGE, ""))
    stacktrace = str(attributes.get(names.EXCEPTION_STACKTRACE, ""))
    event.exception = model.ExceptionInfo(type=kind, message=message, stacktrace=stacktrace)
    _take(
        event,
        reader.exception(
            kind, message, stacktrace, _rows(attributes.get(names.STACK_FRAMES)), _rows(attributes.get(names.EXCEPTION_CHAIN))
        ),
    )
    if kind.rsplit(".", 1)[-1] in _STOP_TYPES:
        event.symptom, event.text_role = "preempted", "teardown"
    elif not event.symptom:
        event.symptom = "python_error"


def _read_tail(event: model.Event, attributes: Mapping[str, Any], reader: Reader) -> None:
    """The most telling of the last lines, for processes that died without a Python exception."""
    tail = attributes.get(names.STDERR_TAIL)
    end = ending(
        str(attributes.get(names.EXIT_STATE, "")),
        integer(attributes.get(names.EXIT_CODE)),
        integer(attributes.get(names.EXIT_SIGNAL)),
    )
    if end.kind != "fault" or not isinstance(tail, list):
        return
    best: tuple[float, int, str, Reading] | None = None
    for at, line in enumerate(tail[-_TAIL_READ:]):
        reading = reader.line(str(line))
        if reading.symptom and (best is None or reading.weight > best[0]):
            best = (reading.weight, at, str(line), reading)
    if best is not None:
        _take(event, best[3])
        event.attributes = {**event.attributes, TAIL_LINE: best[2]}


def _take(event: model.Event, reading: Reading) -> None:
    event.symptom, event.text_role = reading.symptom, reading.role
    event.text_weight, event.text_pattern, event.text_domains = reading.weight, reading.pattern, reading.domains
    event.fingerprint, event.stack_hash = reading.fingerprint.id, reading.fingerprint.stack_hash


def _rows(value: Any) -> list[Any]:
    """A JSON list in an attribute; [] for anything else (senders are free to send what they like)."""
    if not isinstance(value, str) or not value:
        return []
    try:
        rows = json.loads(value)
    except ValueError:
        return []
    return rows if isinstance(rows, list) else []
