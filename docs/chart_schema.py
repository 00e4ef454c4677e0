"""Says what the chart's `settings` take: every setting of the services and the job, but secrets and what the chart sets by itself."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from firstfault_server.core.thresholds import Thresholds
from firstfault_server.detect.flink.plan import ENVIRONMENT, Plan
from firstfault_server.settings import Settings, is_secret

CHART: Final = Path(__file__).parents[1] / "helm" / "firstfault"
SCHEMA: Final = CHART / "values.schema.json"
NOT_OF_SERVICES: Final = frozenset({"api_url", "data", "log_bytes", "output"})
"""Settings of the commands, and of the service in one process."""
KEPT: Final = frozenset(
    {"type", "enum", "pattern", "minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum", "minLength", "items", "additionalProperties"}
)
SET_BY_CHART: Final = re.compile(rf'^\s*({ENVIRONMENT}\w+):|name: ({ENVIRONMENT}\w+)|"({ENVIRONMENT}\w+_FILE)"', re.MULTILINE)
WEB_ADDRESS: Final = {"type": "string", "pattern": "^(https?://[^ ]+)?$"}


def schema() -> str:
    """The chart's schema with `settings` as they are now; all else stays as it is in the file."""
    whole: dict[str, Any] = json.loads(SCHEMA.read_text(encoding="utf-8"))
    by_chart = set(set_by_chart())
    taken = {name: value for name, value in sorted(settings().items()) if name not in by_chart}
    whole["properties"]["settings"] = {"type": "object", "additionalProperties": False, "properties": taken}
    return json.dumps(whole, indent=2, ensure_ascii=False) + "\n"


def settings() -> dict[str, Any]:
    """Variable -> schema of its value, for services and job."""
    found: dict[str, Any] = {}
    plan = msgspec.json.schema(Plan)["$defs"]["Plan"]["properties"]
    for name in plan.keys() - Settings.model_fields.keys():
        found[name] = _kept(plan[name])
    described = Settings.model_json_schema()["properties"]
    for name, field in Settings.model_fields.items():
        if name not in NOT_OF_SERVICES and not is_secret(field):
            found[name] = _kept(described[name])
    found["thresholds"] = _thresholds()
    found["telemetry_endpoint"] = WEB_ADDRESS
    return {ENVIRONMENT + name.upper(): value for name, value in found.items()}


def set_by_chart() -> Iterator[str]:
    """Variables that the templates set, which nobody may set twice."""
    for path in sorted((CHART / "templates").iterdir()):
        for names in SET_BY_CHART.findall(path.read_text(encoding="utf-8")):
            yield next(filter(None, names))


def _thresholds() -> dict[str, Any]:
    each = msgspec.json.schema(Thresholds)["$defs"]["Thresholds"]["properties"]
    return {"type": "object", "additionalProperties": False, "properties": {name: _kept(each[name]) for name in sorted(each)}}


def _kept(described: dict[str, Any]) -> dict[str, Any]:
    """Without what says nothing about the value."""
    return {key: value for key, value in described.items() if key in KEPT}
