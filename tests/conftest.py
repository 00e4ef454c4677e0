"""What every test starts from: no settings of the person who runs it, and generated cases that are the same each time."""

import os

import pytest
from hypothesis import HealthCheck, settings

KEPT = {"FIRSTFAULT_SOAK"}
"""Settings of the tests themselves."""

# No deadline: the machine may be busy. `make soak` looks further, and elsewhere each time.
settings.register_profile("tests", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("soak", settings.get_profile("tests"), derandomize=False, max_examples=2000)
settings.load_profile("soak" if "FIRSTFAULT_SOAK" in os.environ else "tests")


def pytest_configure(config: pytest.Config) -> None:
    """Before anything is imported that reads the environment."""
    for name in list(os.environ):
        if name.startswith(("FIRSTFAULT_", "OTEL_")) and name not in KEPT:
            del os.environ[name]
