"""The stack that all tests of one file share; it ends with them, since it costs the others half a core."""

from collections.abc import Iterator

import pytest

from tests.integration.stack.deployed import Deployed, deployed
from tests.integration.stack.flooding import QUOTA


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployed]:
    """Every server and service, real processes all of them; tenants have a quota that only a flood reaches."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FIRSTFAULT_TENANT_BYTES_PER_S", str(QUOTA))
        with deployed(tmp_path_factory.mktemp("stack") / "stack") as up:
            yield up
