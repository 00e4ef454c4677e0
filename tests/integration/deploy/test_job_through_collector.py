"""Real failing jobs with the real SDK, reporting through the Collector of their node."""

import sys
from pathlib import Path
from typing import Any

import pytest

from firstfault_server.demo.launcher import Ranks
from firstfault_server.demo.plan import Fault, Plan
from tests.integration.deploy.collector import Collector, this_environment
from tests.integration.deploy.conftest import Behind
from tests.integration.service.running import wait_for

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1800)]

WANTED = {Fault.EXCEPTION: "shape_mismatch", Fault.SIGKILL: "process_killed", Fault.NONFINITE: "nonfinite"}


@pytest.mark.parametrize("fault", WANTED)
def test_a_failing_job_is_one_incident(behind: Behind, tmp_path: Path, fault: Fault) -> None:
    """The rank that failed first, as without the Collector; not a number stays one on its way, and no loss is missing."""
    with Collector(tmp_path / "agent", behind.service.otlp_url, behind.key, node=behind.node) as collector:
        plan = Plan(fault=fault, steps=40)
        environ = this_environment() | {"FIRSTFAULT_ENDPOINT": collector.otlp_url, "FIRSTFAULT_RUN_ID": "job", "K8S_NODE_NAME": behind.node}
        command = [sys.executable, "-m", "firstfault_server.demo.job", *plan.arguments()]
        ranks = Ranks(command, 2, tmp_path / "job", environ)
        try:
            ranks.watch(grace_s=2, timeout_s=120)
        finally:
            ranks.stop()
        wait_for(lambda: settled(behind), 60, "the settled incident")
        (incident,) = behind.service.items("/v1/incidents")
        assert (incident["symptom"], incident["first_fault"]["rank"]) == (WANTED[fault], plan.fault_rank)
        assert incident["first_fault"]["node"] == behind.node
        steps = plan.fault_step if fault is not Fault.NONFINITE else plan.steps
        if fault is not Fault.SIGKILL:
            # What a process had not sent yet when it was killed is gone with it.
            wait_for(lambda: min(losses(behind), default=0) >= steps, 60, "every loss up to the fault")
        assert max(losses(behind)) <= steps + 1, "none twice"


def settled(behind: Behind) -> bool:
    """Whether there is an incident that has settled."""
    found = behind.service.items("/v1/incidents")
    return bool(found) and all(incident["first_fault"]["status"] == "settled" for incident in found)


def losses(behind: Behind) -> list[int]:
    """How many losses each rank has stored."""
    items: list[dict[str, Any]] = behind.service.items("/v1/runs/job/ranks", metric="loss")
    return [item["figures"]["count"] if item["figures"] else 0 for item in items]
