"""`firstfault demo` as people start it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.cli.conftest import clean_environment

pytestmark = pytest.mark.integration


@pytest.mark.timeout(300)
def test_the_demonstration_names_the_rank_that_failed() -> None:
    script = Path(sys.executable).with_name("firstfault")
    done = subprocess.run([script, "demo"], capture_output=True, text=True, env=clean_environment(), timeout=280)
    assert done.returncode == 0, done.stderr
    (incident,) = json.loads(done.stdout)["items"]
    assert incident["first_fault"]["rank"] == 1
    assert incident["first_fault"]["status"] == "settled"
    assert {role["rank"]: role["role"] for role in incident["ranks"]} == {0: "cascade", 1: "initiating"}
    assert incident["page"]
