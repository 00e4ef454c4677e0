"""The Collector of a node in front of the real service: everything arrives once, whatever ends in between."""

import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.integration.deploy.collector import Collector, gauge, logs, process, record
from tests.integration.deploy.conftest import Behind
from tests.integration.service.running import RunningService, wait_for

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1800)]
"""The first of them may have to build the Collector."""

KERNEL = ("node.yaml", "kernel.yaml", "kernel-file.yaml")


def bodies(service: RunningService) -> list[str]:
    """Texts of all events, sorted."""
    return sorted(item["body"] for item in service.items("/v1/events"))


def named(service: RunningService, event: str) -> list[dict[str, Any]]:
    """Events of a name."""
    return [item for item in service.items("/v1/events") if item["event_name"] == event]


def test_arrives_once(behind: Behind, tmp_path: Path) -> None:
    with Collector(tmp_path / "agent", behind.service.otlp_url, behind.key) as collector:
        me = process("through", 0, size=1)
        wanted = [f"message {number}" for number in range(20)]
        for body in wanted:
            collector.send("logs", logs(me, record(body, 13)))
        start = time.time_ns()
        values = [(start + number * 1_000_000, float(number)) for number in range(50)]
        collector.send("metrics", gauge(me, "train.loss", values))
        wait_for(lambda: bodies(behind.service) == sorted(wanted), 30, "every record, once")
        wait_for(lambda: losses(behind.service, "through") == 50, 30, "every point, once")


def test_ingest_away_and_collector_killed(behind: Behind, tmp_path: Path) -> None:
    """What was acknowledged while the service was away outlives a kill of the Collector too."""
    collector = Collector(tmp_path / "agent", behind.service.otlp_url, behind.key)
    try:
        collector.start()
        me = process("outage", 0, size=1)
        behind.service.kill()
        before = [f"before {number:02}" for number in range(25)]
        for body in before:
            collector.send("logs", logs(me, record(body, 13)))
        collector.kill()
        collector.start()
        after = [f"after {number:02}" for number in range(25)]
        for body in after:
            collector.send("logs", logs(me, record(body, 13)))
        behind.service.start()
        wait_for(lambda: bodies(behind.service) == sorted(before + after), 60, "every record, once")
        threading.Event().wait(2)
        assert bodies(behind.service) == sorted(before + after)
    finally:
        collector.stop()


def test_xid_joins_the_incident(behind: Behind, tmp_path: Path) -> None:
    """A line of the kernel log becomes a node record, and an incident of the run on that node."""
    log = tmp_path / "kern.log"
    log.write_text("Nov 29 10:00:00 node-a kernel: [1.0] NVRM: Xid (PCI:0000:3b:00): 48, an old one\n")
    with Collector(tmp_path / "agent", behind.service.otlp_url, behind.key, KERNEL, behind.node, KERNEL_FILE=str(log)) as collector:
        wait_for(collector.watches, 20, "the file")
        collector.send("logs", logs(process("gpu", 0, behind.node), record("", 9, "train.heartbeat")))
        # A rank on a node without an agent.
        direct = logs(process("gpu", 1, "elsewhere"), record("", 9, "train.heartbeat"))
        authorization = {"authorization": f"Bearer {behind.key}"}
        assert httpx.post(f"{behind.service.otlp_url}/v1/logs", json=direct, headers=authorization, timeout=20).status_code == 200
        wait_for(lambda: behind.service.client.get("/v1/runs/gpu").status_code == 200, 30, "the run")
        line = "NVRM: Xid (PCI:0000:3b:00): 79, pid=4000, name=python, GPU has fallen off the bus."
        with log.open("a") as file:
            file.write("Nov 29 10:00:01 node-a kernel: [2.0] usb 1-1: new device\n")
            file.write(f"Nov 29 10:00:02 node-a kernel: [ 123.456789] {line}\n")
        wait_for(lambda: bool(behind.service.items("/v1/incidents")), 30, "the incident")
        wait_for(lambda: behind.service.items("/v1/incidents")[0]["first_fault"]["status"] == "settled", 30, "its settling")
        (incident,) = behind.service.items("/v1/incidents")
        assert (incident["symptom"], incident["first_fault"]["rank"], incident["first_fault"]["node"]) == ("gpu_lost", 0, behind.node)
        assert line in [piece["text"] for piece in incident["evidence"] if piece["kind"] == "node"]
        (event,) = named(behind.service, "node.xid")
        assert event["body"] == line
        assert event["node"] == behind.node
        known = {"node.xid.code": 79, "node.xid.pci": "0000:3b:00", "process.pid": 4000, "process.executable.name": "python"}
        assert {name: event["attributes"].get(name) for name in known} == known


def test_oom_kill_is_a_node_record(behind: Behind, tmp_path: Path) -> None:
    """One record for one kill, with the victim; its time is the one of the line where that tells it."""
    log = tmp_path / "kern.log"
    log.write_text("Nov 29 10:00:00 node-a kernel: [1.0] Out of memory: Killed process 7 (old) total-vm:1kB\n")
    with Collector(tmp_path / "agent", behind.service.otlp_url, behind.key, KERNEL, behind.node, KERNEL_FILE=str(log)) as collector:
        wait_for(collector.watches, 20, "the file")
        when = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time.time() - 20))
        with log.open("a") as file:
            file.write(f"{when}.250000+00:00 node-a kernel: [9.1] python invoked oom-killer: gfp_mask=0xcc0, order=0\n")
            file.write(f"{when}.250000+00:00 node-a kernel: [9.2] oom-kill:constraint=CONSTRAINT_MEMCG,task=python,pid=4012,uid=0\n")
            file.write(f"{when}.250000+00:00 node-a kernel: [9.3] Memory cgroup out of memory: Killed process 4012 (python) total-vm:9kB\n")
        wait_for(lambda: bool(named(behind.service, "node.oom_kill")), 30, "the record")
        (event,) = behind.service.items("/v1/events")
        assert event["body"] == "Memory cgroup out of memory: Killed process 4012 (python) total-vm:9kB"
        assert event["attributes"]["process.pid"] == 4012
        assert event["attributes"]["process.executable.name"] == "python"
        assert event["time"].startswith(f"{when}.25")


def test_pod_logs_are_events_and_open_nothing(behind: Behind, tmp_path: Path) -> None:
    folder = tmp_path / "pods" / "team_trainer-0_0f1e2d3c-1111-2222-3333-444455556666" / "main"
    folder.mkdir(parents=True)
    log = folder / "0.log"
    log.write_text("2020-01-01T00:00:00.000000001Z stderr F RuntimeError: an old one\n")
    pattern = str(tmp_path / "pods" / "*" / "*" / "*.log")
    configs = ("node.yaml", "kernel.yaml", "pods.yaml")
    with Collector(tmp_path / "agent", behind.service.otlp_url, behind.key, configs, behind.node, POD_LOGS=pattern) as collector:
        wait_for(collector.watches, 20, "the file")
        now = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime())
        with log.open("a") as file:
            file.write(f"{now}.000000001Z stdout F step 1 loss 2.5\n")
            file.write(f"{now}.000000002Z stderr F RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB\n")
            file.write(f"{now}.000000003Z stderr F WARNING: slow input\n")
        wanted = ["RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB", "WARNING: slow input"]
        wait_for(lambda: bodies(behind.service) == wanted, 30, "the warning and the error")
        events = behind.service.items("/v1/events")
        assert {event["node"] for event in events} == {behind.node}
        threading.Event().wait(6)
        assert behind.service.items("/v1/incidents") == [], "a line that a container printed names no run"


JOURNALCTL = """#!/bin/sh
# Stands in for journalctl: a journal with kernel lines can be had on a machine with systemd only.
echo "$@" > "$0.called"
now=$(date +%s)
printf '{"__CURSOR":"s=1;i=1","__REALTIME_TIMESTAMP":"%s000001","_TRANSPORT":"kernel","PRIORITY":"3","MESSAGE":"LINE"}\\n' "$now"
printf '{"__CURSOR":"s=1;i=2","__REALTIME_TIMESTAMP":"%s000002","_TRANSPORT":"kernel","PRIORITY":"6","MESSAGE":"usb 1-1"}\\n' "$now"
exec sleep 300
"""


def test_lines_of_the_journal(behind: Behind, tmp_path: Path) -> None:
    line = "NVRM: Xid (PCI:0000:3b:00): 48, pid=4000, name=python, DBE (double bit error) detected"
    tools, journal = tmp_path / "bin", tmp_path / "journal"
    tools.mkdir()
    journal.mkdir()
    (tools / "journalctl").write_text(JOURNALCTL.replace("LINE", line))
    (tools / "journalctl").chmod(0o755)
    configs = ("node.yaml", "kernel.yaml", "kernel-journald.yaml")
    with Collector(tmp_path / "agent", behind.service.otlp_url, behind.key, configs, behind.node, str(tools), JOURNAL=str(journal)):
        wait_for(lambda: bodies(behind.service) == [line], 30, "the line")
        (event,) = named(behind.service, "node.xid")
        assert (event["node"], event["attributes"]["node.xid.code"]) == (behind.node, 48)
    asked = (tools / "journalctl.called").read_text().split()
    assert {"--follow", "--dmesg", "--output=json", str(journal)} <= set(asked)


@pytest.mark.parametrize("kernel", [(), ("kernel.yaml", "kernel-file.yaml"), ("kernel.yaml", "kernel-journald.yaml"), ("kernel.yaml",)])
@pytest.mark.parametrize("pods", [(), ("pods.yaml",)])
def test_every_mixture_of_files_is_a_configuration(
    tmp_path: Path, collector_binary: Path, kernel: tuple[str, ...], pods: tuple[str, ...]
) -> None:
    """As the chart puts them together."""
    if pods and not kernel:
        kernel = ("kernel.yaml",)
    collector = Collector(tmp_path, "http://127.0.0.1:1", "ffk_nobody", ("node.yaml", *kernel, *pods))
    done = subprocess.run(collector.command("validate"), capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr


def test_health_and_own_numbers(tmp_path: Path, collector_binary: Path) -> None:
    with Collector(tmp_path / "agent", "http://127.0.0.1:1", "ffk_nobody") as collector:
        collector.send("logs", logs(process("alone", 0), record("kept", 17)))
        wait_for(lambda: "otelcol_exporter_queue_size" in httpx.get(collector.metrics_url).text, 20, "the length of its queue")


def losses(service: RunningService, run: str) -> int:
    """How many points of the loss the service has for a run."""
    answer = service.client.get(f"/v1/runs/{run}/series", params={"metric": "train.loss", "period": "1h"})
    if answer.status_code != 200:
        return 0
    return sum(
        point.get("count", 0) for series in answer.json().get("series", answer.json().get("items", [])) for point in series["points"]
    )
