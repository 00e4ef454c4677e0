"""The compose file, read by Compose's own program; and its variables, against the settings."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from firstfault_server.detect.flink.plan import Plan, read_plan
from firstfault_server.settings import Settings, is_secret
from tests.integration.deploy.environment import ROOT, ensure

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

FIELDS = {f"FIRSTFAULT_{name.upper()}": field for name, field in Settings.model_fields.items()}
SERVERS = {"kafka", "elasticsearch", "clickhouse"}
OURS = {"ingest", "writer", "api", "alerter"}
FLINK = {"jobmanager", "taskmanager"}
JOB = {f"FIRSTFAULT_{field.name.upper()}" for field in msgspec.structs.fields(Plan)}
Document = dict[str, Any]


def config(folder: Path, *options: str, **shell: str) -> subprocess.CompletedProcess[str]:
    """What `docker compose config` says of the compose file in a folder."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("FIRSTFAULT_", "COMPOSE_", "COLLECTOR_"))}
    command = [str(ensure() / "bin" / "docker-compose"), "--project-directory", str(folder), *options, "config", "--format", "json"]
    return subprocess.run(command, env=kept | shell, capture_output=True, text=True, check=False)


def copied(folder: Path) -> Path:
    """A folder with the compose file and what it reads, without the settings of whoever runs this."""
    (folder / "deploy" / "docker").mkdir(parents=True)
    for name in ("docker-compose.yml", "deploy/docker/defaults.env"):
        shutil.copy(ROOT / name, folder / name)
    return folder


def read(folder: Path, *options: str, **shell: str) -> Document:
    """The whole project."""
    done = config(folder, *options, **shell)
    assert done.returncode == 0, done.stderr
    assert done.stderr == "", "no variable has to be set"
    document: Document = json.loads(done.stdout)
    return document


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Without settings of anybody's own."""
    return copied(tmp_path_factory.mktemp("compose"))


@pytest.fixture(scope="module")
def project(folder: Path) -> Document:
    """Everything of the file."""
    return read(folder)


def test_one_plain_start_starts_everything(project: Document) -> None:
    """No profiles, nothing to make by hand."""
    assert set(project["services"]) == SERVERS | OURS | FLINK | {"secrets", "migrate", "collector-key", "collector"}
    assert not project.get("secrets")


def test_the_collector_has_the_key_that_is_made_for_it(project: Document) -> None:
    """Of the secrets that one only; it starts once the key is there."""
    maker, collector = project["services"]["collector-key"], project["services"]["collector"]
    assert (ROOT / "deploy" / "docker" / "server" / Path(maker["entrypoint"][-1]).name).is_file()
    (made,) = maker["command"]
    places = {volume["source"]: volume["target"] for volume in maker["volumes"]}
    mounts = {volume["source"]: volume for volume in collector["volumes"]}
    assert mounts.keys() == {"collector-data", "collector-key"}
    assert mounts["collector-key"]["read_only"] is True
    relative = Path(made).relative_to(places["collector-key"])
    assert Path(collector["environment"]["COLLECTOR_API_KEY_FILE"]) == mounts["collector-key"]["target"] / relative
    assert collector["depends_on"]["collector-key"]["condition"] == "service_completed_successfully"
    assert maker["depends_on"]["migrate"]["condition"] == "service_completed_successfully"


@pytest.mark.parametrize(
    ("good", "bad"),
    [("depends_on:", "dependson:"), ("kafka: {condition", "kafkax: {condition"), ("service_healthy", "healthy"), ("4318:4318", "4318:abc")],
)
def test_the_check_can_fail(tmp_path: Path, good: str, bad: str) -> None:
    broken = copied(tmp_path) / "docker-compose.yml"
    text = broken.read_text()
    assert good in text
    broken.write_text(text.replace(good, bad))
    assert config(tmp_path).returncode != 0


def variables(service: Document) -> dict[str, str]:
    """Ours of one service."""
    return {key: value for key, value in (service.get("environment") or {}).items() if key.startswith("FIRSTFAULT_")}


def test_variables_are_settings(project: Document, folder: Path) -> None:
    """Each of the program that gets it; settings files are shared, what is written beside a service is only its own."""
    own = yaml.safe_load((folder / "docker-compose.yml").read_text())["services"]
    for name, service in project["services"].items():
        ours = variables(service)
        if name in FLINK:
            assert variables(own[name]).keys() <= JOB, name
            assert ours.keys() <= JOB | FIELDS.keys(), name
            read_plan([], ours)
            continue
        for variable, value in ours.items():
            if variable not in FIELDS:
                assert variable.endswith("_FILE"), variable
                assert is_secret(FIELDS[variable.removesuffix("_FILE")])
                assert value.startswith("/run/firstfault/")
            else:
                assert not is_secret(FIELDS[variable]), "a secret in the file"
        plain: Document = {key.removeprefix("FIRSTFAULT_").lower(): value for key, value in ours.items() if key in FIELDS}
        Settings(**{key: json.loads(value) if key == "allowed_hosts" else value for key, value in plain.items()})


def test_settings_of_your_own_reach_every_service_and_the_job(tmp_path: Path, project: Document) -> None:
    """From firstfault.env as a person writes it; what holds the parts together stays."""
    lines = [
        "# Of our own",
        'FIRSTFAULT_THRESHOLDS={"silence_s": 20, "pause_floor_s": 15.5}',
        "FIRSTFAULT_FLINK_BACKEND=rocksdb",
        "FIRSTFAULT_FLINK_PARALLELISM=2",
        "FIRSTFAULT_KAFKA_PREFIX=trial",
        "FIRSTFAULT_RETENTION_EVENTS_DAYS=3",
        "FIRSTFAULT_TELEMETRY_ENDPOINT=http://telemetry:4318",
        "FIRSTFAULT_PUBLIC_URL=https://firstfault.example.org",
        "FIRSTFAULT_KAFKA_BOOTSTRAP=elsewhere:9092",
    ]
    (copied(tmp_path) / "firstfault.env").write_text("\n".join(lines))
    services = read(tmp_path, FIRSTFAULT_PUBLIC_URL="https://shell.example.org")["services"]
    given = dict(line.split("=", 1) for line in lines[1:]) | {"FIRSTFAULT_KAFKA_BOOTSTRAP": "kafka:9092"}
    for name in OURS | FLINK | {"migrate"}:
        assert variables(services[name]) == variables(project["services"][name]) | given, name
    plan = read_plan([], variables(services["jobmanager"]))
    assert (plan.flink_backend, plan.flink_parallelism, plan.kafka_prefix) == ("rocksdb", 2, "trial")
    assert plan.thresholds == {"silence_s": 20, "pause_floor_s": 15.5}


def test_settings_of_the_shell(folder: Path, project: Document) -> None:
    there = read(folder, FIRSTFAULT_PUBLIC_URL="https://shell.example.org", FIRSTFAULT_LOG_LEVEL="debug")["services"]["api"]
    assert variables(there).items() >= {"FIRSTFAULT_PUBLIC_URL": "https://shell.example.org", "FIRSTFAULT_LOG_LEVEL": "debug"}.items()
    assert variables(project["services"]["api"])["FIRSTFAULT_PUBLIC_URL"] == "http://127.0.0.1:8080"


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
