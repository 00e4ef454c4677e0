"""Builds the OTLP/JSON that the sidecar sends; pure. Numbers that JSON lacks go out as strings, as OTLP/JSON says."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from firstfault import conventions
from firstfault._sidecar_config import AttributeValue
from firstfault.sidecar.lines import Severity

SENDER = "sidecar"


def record(
    event: str, time_ns: int, severity: Severity, attributes: Mapping[str, AttributeValue | None], body: str | None = None
) -> dict[str, Any]:
    """One log record; attributes that are None are left out."""
    built: dict[str, Any] = {
        "timeUnixNano": str(time_ns),
        "observedTimeUnixNano": str(time_ns),
        "severityNumber": int(severity),
        "severityText": severity.name,
        "eventName": event,
        "attributes": _attributes(attributes),
    }
    if body is not None:
        built["body"] = {"stringValue": _encodable(body)}
    return built


def request(resource: Mapping[str, AttributeValue], seq: int, dropped: Mapping[str, int], records: Sequence[Mapping[str, Any]]) -> bytes:
    """Body of one `/v1/logs` request, which is one batch: number `seq` of the sender `sidecar`."""
    scope: dict[str, AttributeValue | None] = {
        conventions.BATCH_SENDER: SENDER,
        conventions.BATCH_SEQ: seq,
        conventions.DROPPED: json.dumps(dict(dropped)) if dropped else None,
    }
    body = {
        "resourceLogs": [
            {
                "resource": {"attributes": _attributes(resource)},
                "scopeLogs": [{"scope": {"name": "firstfault.sidecar", "attributes": _attributes(scope)}, "logRecords": list(records)}],
            }
        ]
    }
    return json.dumps(body, ensure_ascii=True, separators=(",", ":"), allow_nan=False).encode()


def _attributes(attributes: Mapping[str, AttributeValue | None]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in attributes.items() if value is not None]


def _value(value: AttributeValue) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        if math.isfinite(value):
            return {"doubleValue": value}
        return {"doubleValue": "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"}
    if isinstance(value, str):
        return {"stringValue": _encodable(value)}
    return {"arrayValue": {"values": [_value(element) for element in value]}}


def _encodable(text: str) -> str:
    """A lone surrogate (an undecodable byte of a file name) has no UTF-8 form and would cost the whole batch: escape it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode()
    return text
