"""Misspelt variables are told of, and nobody else's."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from firstfault_server.cli import variables

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("TENANT_BYTES_PER_SEC", "TENANT_BYTES_PER_S"),
        ("RETENTION_EVENT_DAYS", "RETENTION_EVENTS_DAYS"),
        ("THRESHOLD__SETTLE_S", "THRESHOLDS__SETTLE_S"),
        ("API_KEY_FLIE", "API_KEY_FILE"),
        ("PUBLIC_URI", "PUBLIC_URL"),
        ("FLINK_PARALELLISM", "FLINK_PARALLELISM"),
        ("ENDPIONT", "ENDPOINT"),
    ],
)
def test_a_misspelt_variable_is_told_with_what_was_meant(given: str, meant: str) -> None:
    (line,) = variables.warnings({f"FIRSTFAULT_{given}": "secret", "FIRSTFAULT_API_KEY": "secret"})
    assert f"FIRSTFAULT_{given} is" in line and f"FIRSTFAULT_{meant} meant" in line
    assert "secret" not in line


@pytest.mark.parametrize(
    "name",
    [
        "FIRSTFAULT_API_SERVICE_HOST",
        "FIRSTFAULT_API_SERVICE_PORT",
        "FIRSTFAULT_API_SERVICE_PORT_HTTP",
        "FIRSTFAULT_API_PORT",
        "FIRSTFAULT_API_PORT_8080_TCP_ADDR",
        "FIRSTFAULT_SOMETHING_OF_SOMEBODY_ELSE",
        "FIRSTFAULT_THRESHOLDS__SETTLE_S",
        "OTEL_EXPORTER_OTLP_ENDPOINT",
    ],
)
def test_others_are_left_alone(name: str) -> None:
    assert variables.warnings({name: "1"}) == []


def test_every_variable_that_the_sources_read_is_known() -> None:
    sources = [*ROOT.glob("sdk/**/*.py"), *ROOT.glob("services/**/*.py"), *ROOT.glob("deploy/**/*.py")]
    named = {found for path in sources for found in re.findall(r'"FIRSTFAULT_([A-Z][A-Z_]*[A-Z])"', path.read_text(encoding="utf-8"))}
    assert {"RUN_ID", "ENDPOINT", "CACHE", "STACK_FOLDER"} <= named
    assert named <= variables.known()


def test_a_start_tells_in_one_line(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "FIRSTFAULT_TENANT_BYTES_PER_SEC": "1000"}
    for command in (["up", "--api", "127.0.0.1:99999"], ["serve", "alerter"], ["migrate", "--wait", "0"]):
        servers = {"KAFKA_BOOTSTRAP": "127.0.0.1:1", "ELASTICSEARCH_URL": "http://127.0.0.1:1", "CLICKHOUSE_URL": "http://127.0.0.1:1"}
        environ |= {f"FIRSTFAULT_{name}": value for name, value in servers.items()} | {"FIRSTFAULT_ALERTER_HEALTH": "127.0.0.1:99999"}
        done = subprocess.run(
            [sys.executable, "-m", "firstfault", *command],
            env=environ,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            cwd=tmp_path,
        )
        told = [line for line in done.stderr.splitlines() if "FIRSTFAULT_TENANT_BYTES_PER_SEC is set" in line]
        assert (done.returncode != 0, len(told)) == (True, 1), done.stderr
