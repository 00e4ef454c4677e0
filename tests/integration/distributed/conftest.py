"""Installations for tests of the distributed deployment."""

from collections.abc import Iterator

import pytest

from tests.integration.distributed.services import Installation


@pytest.fixture(scope="module")
def installation(kafka_address: str, elasticsearch_address: str, clickhouse_url: str) -> Iterator[Installation]:
    """One for all tests of a module."""
    made = Installation(kafka_address, elasticsearch_address, clickhouse_url)
    yield made
    made.close()
