"""Fixtures of API tests."""

import pytest
from fastapi.testclient import TestClient

from tests.unit.api.stand import Stand


@pytest.fixture
def stand() -> Stand:
    """An application with two tenants and a key of each kind."""
    made = Stand()
    made.fill("acme", "acme")
    made.fill("other", "other")
    return made


@pytest.fixture
def reader(stand: Stand) -> TestClient:
    """A client that may read."""
    return stand.client("ffk_acme-reader")


@pytest.fixture
def writer(stand: Stand) -> TestClient:
    """A client that may read and write."""
    return stand.client("ffk_acme-writer")


@pytest.fixture
def admin(stand: Stand) -> TestClient:
    """A client that may do everything for its tenant."""
    return stand.client("ffk_acme-admin")
