"""The compose file, read by Compose's own program; and its variables, against the settings."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from firstfault_server.detect.flink.plan import read_plan
from firstfault_server.settings import Settings, is_secret
from tests.integration.deploy.environment import ROOT, ensure

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

FIELDS = {f"FIRSTFAULT_{name.upper()}": field for name, field in Settings.model_fields.items()}
SERVERS = {"kafka", "elasticsearch", "clickhouse"}
OURS = {"ingest", "writer", "api", "alerter"}
Document = dict[str, Any]


def config(file: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """What `docker compose config` says."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("FIRSTFAULT_", "COMPOSE_", "COLLECTOR_"))}
    command = [str(ensure() / "bin" / "docker-compose"), "--project-directory", str(ROOT), "-f", str(file), *options]
    return subprocess.run([*command, "config", "--format", "json"], env=environ, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def project() -> Document:
    """Everything of the file, with all profiles."""
    done = config(ROOT / "docker-compose.yml", "--profile", "*")
    assert done.returncode == 0, done.stderr
    assert done.stderr == "", "no variable has to be set"
    document: Document = json.loads(done.stdout)
    return document


def test_plain_start_needs_no_key() -> None:
    """The Collector has a key that must be made first: it is started by its profile only."""
    done = config(ROOT / "docker-compose.yml")
    assert set(json.loads(done.stdout)["services"]) == SERVERS | OURS | {"secrets", "migrate", "jobmanager", "taskmanager"}


@pytest.mark.parametrize(
    ("good", "bad"),
    [("depends_on:", "dependson:"), ("kafka: {condition", "kafkax: {condition"), ("service_healthy", "healthy"), ("4318:4318", "4318:abc")],
)
def test_the_check_can_fail(tmp_path: Path, good: str, bad: str) -> None:
    text = (ROOT / "docker-compose.yml").read_text()
    assert good in text
    broken = tmp_path / "docker-compose.yml"
    broken.write_text(text.replace(good, bad))
    assert config(broken, "--profile", "*").returncode != 0


def test_variables_are_settings(project: Document) -> None:
    for name, service in project["services"].items():
        ours = {key: value for key, value in (service.get("environment") or {}).items() if key.startswith("FIRSTFAULT_")}
        if name in ("jobmanager", "taskmanager"):
            read_plan([], ours)
            continue
        for variable, value in ours.items():
            if variable not in FIELDS:
                assert variable.endswith("_FILE"), variable
                assert is_secret(FIELDS[variable.removesuffix("_FILE")])
                assert value.startswith("/run/firstfault/")
            else:
                assert not is_secret(FIELDS[variable]), "a secret in the file"
        plain = {key.removeprefix("FIRSTFAULT_").lower(): value for key, value in ours.items() if key in FIELDS}
        Settings(**{key: json.loads(value) if key == "allowed_hosts" else value for key, value in plain.items()})


def test_every_start_waits_for_what_it_needs(project: Document) -> None:
    services = project["services"]
    migrate = {name: needed["condition"] for name, needed in services["migrate"]["depends_on"].items()}
    assert migrate == dict.fromkeys(SERVERS, "service_healthy") | {"secrets": "service_completed_successfully"}
    for name in OURS | {"jobmanager"}:
        assert services[name]["depends_on"]["migrate"]["condition"] == "service_completed_successfully"
    for name in OURS | SERVERS | {"jobmanager"}:
        assert services[name]["healthcheck"]["test"], name


def test_services_are_confined(project: Document) -> None:
    """Limits, no capabilities, ports on the loopback interface only, servers on a network without a way out."""
    for name, service in project["services"].items():
        assert name == "secrets" or service["deploy"]["resources"]["limits"].keys() >= {"cpus", "memory"}, name
        assert all(port["host_ip"] == "127.0.0.1" for port in service.get("ports", [])), name
        assert not service.get("privileged")
        if name not in SERVERS:
            assert service["cap_drop"] == ["ALL"], name
            assert service["security_opt"] == ["no-new-privileges:true"], name
    for name in SERVERS:
        assert set(project["services"][name]["networks"]) == {"backend"}
    assert project["networks"]["backend"]["internal"] is True


def test_data_outlives_containers(project: Document) -> None:
    for name, where in {
        "kafka": "/var/lib/kafka/data",
        "elasticsearch": "/usr/share/elasticsearch/data",
        "clickhouse": "/var/lib/clickhouse",
        "jobmanager": "/state",
        "taskmanager": "/state",
        "collector": "/data",
    }.items():
        kinds = {volume["target"]: volume["type"] for volume in project["services"][name]["volumes"]}
        assert kinds[where] == "volume", name
    assert project["services"]["kafka"]["environment"]["KAFKA_LOG_DIRS"] == "/var/lib/kafka/data"
