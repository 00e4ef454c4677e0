"""What a training process sends that dies by an exception, as OTLP/JSON."""

import json
import time
import urllib.request
from collections.abc import Mapping
from typing import Any


def send_crash(otlp_url: str, run: str, message: str = "it broke", key: str = "") -> None:
    """The only rank of a run raises and exits with status 1; returns when it is acknowledged."""
    now_ns = time.time_ns()
    resource = {"service.instance.id": f"{run}-0", "train.run.id": run, "train.rank": 0, "train.world_size": 1, "host.name": "node-1"}
    raised = {"exception.type": "RuntimeError", "exception.message": message, "exception.stacktrace": f"RuntimeError: {message}"}
    ended = {"train.exit.state": "failed", "train.exit.code": 1, "train.exit.source": "excepthook"}
    records = [
        _record(now_ns, "exception", 21, raised | {"firstfault.exception.fatal": True}),
        _record(now_ns + 1000, "train.exit", 17, ended),
    ]
    scope = {"scope": {"name": "tests"}, "logRecords": records}
    body = {"resourceLogs": [{"resource": {"attributes": _attributes(resource)}, "scopeLogs": [scope]}]}
    headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {key}"} if key else {})
    request = urllib.request.Request(f"{otlp_url}/v1/logs", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=30) as response:
        assert json.loads(response.read()) == {}


def _record(time_ns: int, name: str, severity: int, attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {"timeUnixNano": str(time_ns), "eventName": name, "severityNumber": severity, "attributes": _attributes(attributes)}


def _attributes(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in values.items()]


def _value(value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    return {"intValue": str(value)} if isinstance(value, int) else {"stringValue": str(value)}
