"""Every setting of services and job can be set in the chart, once, and nothing else can."""

import json
from typing import Any

import msgspec
import pytest

from firstfault_server.detect.flink.plan import Plan, read_plan
from firstfault_server.settings import Settings, is_secret
from tests.integration.deploy.chart import CHART, LEAST, Document, documents, merged, pods, render

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

OFFERED: dict[str, Document] = json.loads((CHART / "values.schema.json").read_text())["properties"]["settings"]["properties"]
OF_COMMANDS = {"FIRSTFAULT_API_URL", "FIRSTFAULT_OUTPUT", "FIRSTFAULT_DATA", "FIRSTFAULT_LOG_BYTES"}
"""The last two are of the service in one process."""
SERVICES = {f"FIRSTFAULT_{name.upper()}" for name, field in Settings.model_fields.items() if not is_secret(field)} - OF_COMMANDS
JOB = {f"FIRSTFAULT_{field.name.upper()}" for field in msgspec.structs.fields(Plan)}
MANY = 123_456_789_012
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "misspelt": ({"FIRSTFAULT_ALERT_TIMOUT_S": 10}, "FIRSTFAULT_ALERT_TIMOUT_S"),
    "no-number": ({"FIRSTFAULT_RETENTION_EVENTS_BYTES": "lots"}, "RETENTION_EVENTS_BYTES"),
    "too-much": ({"FIRSTFAULT_ALERT_TIMEOUT_S": 61}, "maximum"),
    "too-little": ({"FIRSTFAULT_RETENTION_RUNS_DAYS": 14}, "minimum"),
    "no-address": ({"FIRSTFAULT_TELEMETRY_ENDPOINT": "collector:4318"}, "pattern"),
    "misspelt-threshold": ({"FIRSTFAULT_THRESHOLDS": {"silense_s": 20}}, "silense_s"),
    "impossible-threshold": ({"FIRSTFAULT_THRESHOLDS": {"silence_s": -1}}, "silence_s"),
    "unknown-backend": ({"FIRSTFAULT_FLINK_BACKEND": "rocks"}, "FLINK_BACKEND"),
    "twice": ({"FIRSTFAULT_KAFKA_PREFIX": "other"}, "FIRSTFAULT_KAFKA_PREFIX"),
    "twice-in-the-job": ({"FIRSTFAULT_FLINK_PARALLELISM": 2}, "FIRSTFAULT_FLINK_PARALLELISM"),
    "secret": ({"FIRSTFAULT_CLICKHOUSE_PASSWORD": "x"}, "FIRSTFAULT_CLICKHOUSE_PASSWORD"),
    "of-commands": ({"FIRSTFAULT_API_URL": "http://api:8080"}, "FIRSTFAULT_API_URL"),
}


def sample(schema: Document) -> Any:
    """A value that must be taken."""
    if "enum" in schema:
        return schema["enum"][-1]
    if schema["type"] == "string":
        return "http://collector:4318" if "pattern" in schema else "firstfault_server.detect.flink.plan:stages"
    if schema["type"] == "array":
        return ["https://pages.example.org"]
    if schema["type"] == "object":
        return {name: sample(inner) for name, inner in schema["properties"].items()}
    # A large whole number must not come out as 1.2e+11.
    return min(schema.get("maximum", MANY), MANY)


@pytest.fixture(scope="module")
def cases() -> dict[str, Document]:
    """All settings at once, none, and what must be refused."""
    settings = {"all": {name: sample(schema) for name, schema in OFFERED.items()}} | {name: given for name, (given, _) in REFUSED.items()}
    # Not rolled out: only the chart's own settings are of interest.
    secrets = {"existingSecret": {"keys": {"kafkaSecurity": "kafka", "elasticsearchCa": "ca.crt"}}, "publicUrl": "https://firstfault"}
    return render({"none": merged(LEAST, secrets)} | {name: merged(LEAST, secrets | {"settings": each}) for name, each in settings.items()})


def services(cases: dict[str, Document], case: str) -> dict[str, str]:
    """Variables of the services."""
    found: dict[str, str] = {}
    for document in documents(cases, case, "ConfigMap"):
        if document["metadata"]["name"].endswith("-settings"):
            found = document["data"]
    (ingest,) = [pod for name, pod in pods(documents(cases, case)) if name.endswith("-ingest")]
    return found | {entry["name"]: entry["value"] for entry in ingest["containers"][0]["env"]}


def job(cases: dict[str, Document], case: str) -> dict[str, str]:
    """Variables of the job; a secret's value is `{}`."""
    (pod,) = [pod for name, pod in pods(documents(cases, case)) if name.endswith("-detect")]
    return {entry["name"]: entry.get("value", "{}") for entry in pod["containers"][0]["env"]}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_is_refused(cases: dict[str, Document], case: str) -> None:
    assert REFUSED[case][1] in cases[case]["refused"]


def test_every_setting_has_exactly_one_place(cases: dict[str, Document]) -> None:
    by_chart = {"services": services(cases, "none").keys(), "job": job(cases, "none").keys()}
    assert not (by_chart["services"] | by_chart["job"]) & OFFERED.keys(), "would be set twice"
    plain = {name for name in by_chart["services"] if name in SERVICES}
    assert plain | (OFFERED.keys() - JOB) | (OFFERED.keys() & SERVICES) == SERVICES
    assert by_chart["job"] | (OFFERED.keys() & JOB) == JOB


def test_settings_reach_those_whose_they_are_as_they_read_them(cases: dict[str, Document], monkeypatch: pytest.MonkeyPatch) -> None:
    found = cases["all"]
    assert (found["refused"], found["problems"], found["lint"]) == ("", [], [])
    given = services(cases, "all")
    assert given.keys() - services(cases, "none").keys() == OFFERED.keys() & SERVICES
    for name, value in given.items():
        if not name.endswith("_FILE"):
            monkeypatch.setenv(name, value)
    read = Settings()
    wanted = {name: sample(OFFERED[name]) for name in OFFERED.keys() & SERVICES}
    assert {name: getattr(read, name.removeprefix("FIRSTFAULT_").lower()) for name in wanted} == wanted
    plan = read_plan([], job(cases, "all"))
    wanted = {name: sample(OFFERED[name]) for name in OFFERED.keys() & JOB}
    assert {name: getattr(plan, name.removeprefix("FIRSTFAULT_").lower()) for name in wanted} == wanted
