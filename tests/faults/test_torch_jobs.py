"""Every fault of the table in the torch job under torchrun becomes exactly the expected incident."""

import re
from pathlib import Path

import pytest

from tests.faults.conftest import ServiceFor
from tests.faults.jobs import TorchJob
from tests.faults.scenario import play
from tests.faults.table import CASES, Case

pytestmark = [pytest.mark.faults, pytest.mark.torch, pytest.mark.timeout(900)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_becomes_the_expected_incident(case: Case, service_for: ServiceFor, tmp_path: Path) -> None:
    play(case, TorchJob, service_for(case.thresholds), tmp_path, run=f"torch-{re.sub('[^a-z]+', '-', case.name.lower())}")
