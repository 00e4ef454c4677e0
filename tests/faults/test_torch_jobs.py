"""Every fault of the table in the torch job under torchrun becomes exactly the expected incident, and `explain` says the same of what
its ranks wrote."""

import re
from pathlib import Path

import pytest

from tests.faults.conftest import ServiceFor
from tests.faults.jobs import TorchJob
from tests.faults.offline import compare
from tests.faults.scenario import play
from tests.faults.table import CASES, Case

pytestmark = [pytest.mark.faults, pytest.mark.torch, pytest.mark.timeout(900)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_becomes_the_expected_incident(case: Case, service_for: ServiceFor, tmp_path: Path) -> None:
    run = f"torch-{re.sub('[^a-z]+', '-', case.name.lower())}"
    incidents = play(case, TorchJob, service_for(case.thresholds), tmp_path, run=run)
    attempts = [TorchJob.errors(tmp_path / f"attempt-{number}", case.ranks) for number in range(1, len(case.attempts) + 1)]
    assert compare(incidents, attempts) == sum(1 + one.recurrences for one in case.expected if one.exception)
