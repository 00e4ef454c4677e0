"""From what the recorder queued to plain values as they go on the wire: named, redacted, well-formed, bounded. Pure.

Shared by the encoder of OpenTelemetry (`_encode`) and the one for emergencies (`_otlp_json`).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from firstfault import _capture, stack
from firstfault import conventions as c
from firstfault._guard import LOSSES
from firstfault._recorder import Entry, Sample
from firstfault.redact import Redactor

ATTRIBUTE_LIMIT = 16384
"""Characters of one text attribute that is not a stack."""
SCOPE_NAME = "firstfault"
_SEVERITY_TEXT = {9: "INFO", 13: "WARN", 17: "ERROR", 21: "FATAL"}

Signal = Literal["metrics", "logs"]


@dataclass(frozen=True)
class Request:
    """One request, encoded once; sent again it keeps its number and so counts once."""

    signal: Signal
    sequence: int
    body: bytes
    """Compressed with gzip."""
    content_type: str
    urgent: bool = False
    """It holds the end of the process or an exception."""
    ends_process: bool = False
    """It holds the process's exit record."""


@dataclass(frozen=True)
class PlainRecord:
    """A log record ready for any encoder."""

    time_ns: int
    event: str
    severity: int
    severity_text: str
    body: str
    attributes: dict[str, Any]
    trace_id: int
    span_id: int


def plain_record(entry: Entry, redactor: Redactor) -> PlainRecord:
    """The record of an entry; an exception gets its source lines (read from disk) and its texts here."""
    attributes = {name[:200]: plain_value(value, redactor) for name, value in entry.attributes.items() if value is not None}
    body = _text(entry.body, ATTRIBUTE_LIMIT, redactor)
    if entry.exception is not None:
        attributes.update(_exception(_capture.with_sources(entry.exception), redactor))
        body = body or f"{attributes[c.EXCEPTION_TYPE]}: {attributes[c.EXCEPTION_MESSAGE]}"
    return PlainRecord(
        time_ns=entry.time_ns,
        event=_text(entry.event, 200, redactor),
        severity=entry.severity,
        severity_text=_SEVERITY_TEXT.get(entry.severity, ""),
        body=body,
        attributes=attributes,
        trace_id=entry.trace_id,
        span_id=entry.span_id,
    )


def plain_value(value: Any, redactor: Redactor) -> Any:
    """A value as OTLP takes it: text, bool, 64-bit int, float or a tuple of these; of anything else the type."""
    if isinstance(value, str):
        return _text(value, ATTRIBUTE_LIMIT, redactor)
    if isinstance(value, (list, tuple)):
        return tuple(plain_value(item, redactor) for item in value)
    if isinstance(value, int) and not isinstance(value, bool) and not -(2**63) <= value < 2**63:
        return float(value) if abs(value) < 1 << 1000 else "an integer beyond all bounds"
    return value if isinstance(value, (bool, int, float)) else _capture.describe(value)


def series(samples: Sequence[Sample]) -> dict[str, list[tuple[int, int | float]]]:
    """Wire name -> (time, value) of each point; the step is a series of its own with the same times."""
    found: dict[str, list[tuple[int, int | float]]] = {}
    for time_ns, step, numbers in samples:
        if step is not None:
            found.setdefault(c.STEP, []).append((time_ns, step))
        for name, value in numbers.items():
            if type(name) is not str or not name:
                LOSSES.count("bad_metric_name")
                continue
            wire_name = c.METRIC_SHORT_NAMES.get(name) or stack.well_formed(name[:200])
            if wire_name == c.STEP:
                continue
            try:
                found.setdefault(wire_name, []).append((time_ns, float(value)))
            except OverflowError:
                LOSSES.count("number_too_large")
    return {name: points for name, points in found.items() if points}


def scope_attributes(sender: str, sequence: int) -> dict[str, Any]:
    """What names a batch, and what was lost so far."""
    attributes: dict[str, Any] = {c.BATCH_SENDER: sender, c.BATCH_SEQ: sequence}
    if lost := LOSSES.totals():
        attributes[c.DROPPED] = json.dumps(lost)
    return attributes


def is_urgent(entries: Sequence[Entry]) -> bool:
    """Whether one of them is an exception or the end of the process."""
    return any(entry.event in (c.EXCEPTION, c.EXIT) for entry in entries)


def ends_process(entries: Sequence[Entry]) -> bool:
    """Whether one of them is the process's exit record."""
    return any(entry.event == c.EXIT for entry in entries)


def _exception(exception: _capture.Captured, redactor: Redactor) -> Mapping[str, str]:
    clean = _capture.with_texts(exception, redactor.text)
    found = {
        c.EXCEPTION_TYPE: clean.type,
        c.EXCEPTION_MESSAGE: stack.clipped(clean.message, _capture.MESSAGE_LIMIT),
        c.EXCEPTION_STACKTRACE: _capture.stacktrace(clean),
        c.STACK_FRAMES: json.dumps([frame.as_dict() for frame in clean.frames], ensure_ascii=False),
    }
    if clean.hash:
        found[c.STACK_HASH] = clean.hash
    if clean.chain:
        found[c.EXCEPTION_CHAIN] = json.dumps([_capture.link_to_wire(link) for link in clean.chain], ensure_ascii=False)
    return {name: stack.well_formed(value) for name, value in found.items()}


def _text(text: str, limit: int, redactor: Redactor) -> str:
    # Cut first and again: redacting is linear, but a text of 10 MB is still not worth reading whole.
    return stack.well_formed(stack.clipped(redactor.text(stack.clipped(text, 4 * limit)), limit))
