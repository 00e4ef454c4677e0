"""How the compose file runs the Flink job, on the real Flink without containers: the JobManager starts it, from its newest checkpoint."""

import os
import urllib.error
import urllib.request
from pathlib import Path

import pytest
import yaml

from deploy.native.servers.flink import OPENED
from deploy.native.servers.flink_env import ensure, home
from deploy.native.servers.flink_rest import Rest
from deploy.native.servers.process import Process, free_ports
from firstfault_server.core.thresholds import Thresholds
from firstfault_server.detect.flink import plan
from tests.integration.deploy.environment import ROOT
from tests.integration.service.running import wait_for
from tests.parity.outcomes import differences, embedded
from tests.parity.topics import Topics
from tests.property.scripts import Script, at
from tests.unit.detect.recordings import recording

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
START_S = 240.0
FAILED_S, MIDDLE_S, END_S = 8.0, 16.0, 50.0
"""In the time of the scripts: one run fails, a JobManager is killed and another one fails, and everything is settled."""
ENTRY = """#!/bin/bash
# Stands in for the entry point of the Flink image, which hands over to the same script; the job's code is in the checkout here.
shift
exec "$FLINK_HOME/bin/standalone-job.sh" start-foreground "${@//\\/opt\\/firstfault/$CHECKOUT}"
"""


def said(value: object) -> str:
    """As Flink's configuration has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


class Stack:
    """JobManager and TaskManager as the compose file configures them."""

    def __init__(self, folder: Path, kafka: str, prefix: str) -> None:
        environment = ensure()
        flink = home(environment)
        rest, rpc, metrics, self._metrics = free_ports(4)
        self._folder, self._flink, self.rest, self.url = folder, flink, Rest(f"127.0.0.1:{rest}"), f"http://127.0.0.1:{rest}"
        written = yaml.safe_load(COMPOSE["services"]["jobmanager"]["environment"]["FLINK_PROPERTIES"])
        self.metrics_url = f"http://127.0.0.1:{self._metrics}/metrics"
        python = str(environment / "bin" / "python")
        assert written["jobmanager.rpc.address"] == COMPOSE["services"]["jobmanager"]["hostname"]
        own = {
            "jobmanager.rpc.address": "127.0.0.1",
            "jobmanager.rpc.port": rpc,
            "rest.port": rest,
            # Here both parts are on one machine; the TaskManager is told another one.
            "metrics.reporter.prometheus.port": metrics,
            "taskmanager.host": "127.0.0.1",
            "python.executable": python,
            "python.client.executable": python,
            # The image's own configuration has these.
            "env.java.opts.all": " ".join(OPENED),
        }
        properties = {key: said(value).replace("file:///state", f"file://{folder / 'state'}") for key, value in (written | own).items()}
        for name in ("conf", "log", "state"):
            (folder / name).mkdir()
        for file in (flink / "conf").iterdir():
            (folder / "conf" / file.name).write_bytes(file.read_bytes())
        (folder / "conf" / "config.yaml").write_text("".join(f"{key}: {value}\n" for key, value in properties.items()))
        (folder / "entry").write_text(ENTRY)
        (folder / "entry").chmod(0o755)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("FLINK_", "FIRSTFAULT_", "PYTHON"))}
        self._environ = kept | {
            "FLINK_HOME": str(flink),
            "FLINK_CONF_DIR": str(folder / "conf"),
            "FLINK_LOG_DIR": str(folder / "log"),
            "PYTHONPATH": f"{ROOT / 'services'}:{ROOT / 'sdk'}",
            "PATH": f"{environment / 'bin'}:{os.environ['PATH']}",
            "STATE_DIR": str(folder / "state"),
            "FLINK_ENTRYPOINT": str(folder / "entry"),
            "CHECKOUT": str(ROOT),
            "FIRSTFAULT_KAFKA_BOOTSTRAP": kafka,
            "FIRSTFAULT_KAFKA_PREFIX": prefix,
        }

    def taskmanager(self) -> Process:
        """Start one."""
        command = [str(self._flink / "bin" / "taskmanager.sh"), "start-foreground"]
        command.append(f"-Dmetrics.reporter.prometheus.port={self._metrics}")
        return Process(command, self._folder / "taskmanager.log", self._environ)

    def jobmanager(self, number: int) -> Process:
        """Start one, and wait until its job runs."""
        command = [str(ROOT / "deploy" / "docker" / "flink" / "jobmanager.sh")]
        process = Process(command, self._folder / f"jobmanager-{number}.log", self._environ)
        process.wait_until(lambda: any(self.rest.running(job) for job in self.jobs()), START_S, "the job")
        return process

    def jobs(self) -> list[str]:
        """Ids of the jobs it has."""
        return [job["jid"] for job in (self.rest.ask("/jobs/overview") or {}).get("jobs", [])]

    def checkpoints(self) -> dict[str, int]:
        """How many there were of each kind."""
        (job,) = self.jobs()
        found: dict[str, int] = (self.rest.ask(f"/jobs/{job}/checkpoints") or {}).get("counts", {})
        return found


def refused(request: urllib.request.Request | str) -> int:
    """Status of an answer that must be an error."""
    with pytest.raises(urllib.error.HTTPError) as answer:
        urllib.request.urlopen(request, timeout=10)
    answer.value.close()
    return answer.value.code


def failing(run: str, until: float) -> Script:
    """Two ranks train until one of them fails."""
    script = Script(2, run=run, tenant=run)
    step = script.train(0, until)
    script.exception(until, 1, "ValueError", f"{run} has no label", step=step)
    script.exit(until + 0.2, 1, "failed", code=1)
    script.exit(until + 0.4, 0, "killed", signal=15)
    return script


def read(url: str) -> str:
    """A page."""
    with urllib.request.urlopen(url, timeout=10) as answer:
        text: str = answer.read().decode()
    return text


def test_a_jobmanager_that_was_killed_goes_on_from_the_newest_checkpoint(tmp_path: Path, kafka_address: str) -> None:
    topics = Topics(kafka_address, 2)
    stack = Stack(tmp_path, kafka_address, topics.prefix)
    early, late = recording(failing("early", FAILED_S), END_S), recording(failing("late", MIDDLE_S + 4), END_S)
    records = sorted([*early, *(one for one in late if one.key)], key=lambda one: one.received_ms)
    middle_ms = at(MIDDLE_S) // 1_000_000
    running = [stack.taskmanager()]
    try:
        running.append(stack.jobmanager(1))
        topics.write([one for one in records if one.received_ms < middle_ms])
        topics.read_until(lambda found: "early" in found.incidents, START_S)
        wait_for(lambda: stack.checkpoints().get("completed", 0) >= 2, 120, "checkpoints")
        assert stack.checkpoints()["restored"] == 0
        assert refused(urllib.request.Request(f"{stack.url}/jars/upload", data=b"", method="POST")) == 404, "it takes no jobs"
        assert "flink_taskmanager_job_task_operator_" in read(stack.metrics_url)
        features = stack.rest.ask("/config")["features"]
        assert (features["web-submit"], features["web-cancel"]) == (False, False)
        running.pop().kill()
        topics.write([one for one in records if one.received_ms >= middle_ms])
        running.append(stack.jobmanager(2))
        wait_for(lambda: stack.checkpoints().get("restored") == 1, 30, "the job starts from a checkpoint")
        wanted = embedded(plan.stages(Thresholds()), topics.written())
        found = topics.read_until(
            lambda so_far: so_far.incidents == wanted.incidents and len(so_far.rollups) >= len(wanted.rollups), START_S
        )
        wait_for(lambda: stack.checkpoints().get("completed", 0) >= 1, 120, "checkpoints of the new job")
        # What the operator does for an upgrade is no matter of the web interface.
        (job,) = stack.jobs()
        saved = Path(stack.rest.stop(job, f"file://{tmp_path / 'state' / 'savepoints'}", 60).removeprefix("file:"))
        assert (saved / "_metadata").is_file()
    finally:
        for process in running:
            process.kill()
        topics.close()
    # What the first one had seen of the run that failed later is still known, and nothing was lost or said twice.
    assert {tenant: len(incidents) for tenant, incidents in found.incidents.items()} == {"early": 1, "late": 1}
    assert differences(found.incidents, wanted.incidents) == []
    assert differences(found.rollups, wanted.rollups) == []
    assert differences(found.events, wanted.events) == []
    assert sum(type(record).__name__ == "Rollup" for record in topics.found) == len(found.rollups)
