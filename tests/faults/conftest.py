"""Services that the fault jobs of one worker share, started when first needed."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.faults.scenario import quiet
from tests.faults.service import Service, running
from tests.faults.table import THRESHOLDS

ServiceFor = Callable[[str], Service]


@pytest.fixture(scope="session")
def service_for(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceFor]:
    """The service with thresholds of a name of THRESHOLDS."""
    started: dict[str, Service] = {}
    with ExitStack() as stack:

        def service(name: str) -> Service:
            if name not in started:
                started[name] = stack.enter_context(running(tmp_path_factory.mktemp(f"service-{name}"), THRESHOLDS[name]))
            return started[name]

        yield service
        if any(each.counted for each in started.values()):
            quiet()
        for each in started.values():
            assert {run: len(each.incidents(run)) for run in each.counted} == each.counted
