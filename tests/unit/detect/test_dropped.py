"""Points that are not stored: counted by reason, told once a process."""

import logging

import pytest
from prometheus_client import CollectorRegistry

from firstfault_server.core import model
from firstfault_server.core.stages.worker import Worker
from firstfault_server.core.thresholds import Thresholds
from firstfault_server.detect.keyed import KeyedStages
from firstfault_server.detect.telemetry import DetectMetrics
from firstfault_server.tables import load_tables
from tests.property.scripts import at


def test_names_beyond_the_limit_are_counted_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    stages = KeyedStages({"worker": Worker(Thresholds(series_per_process=10), load_tables().text_reader())})
    registry = CollectorRegistry()
    metrics = DetectMetrics(registry)
    with caplog.at_level(logging.WARNING):
        for number in range(3):
            times = [at(number), at(number) + 1]
            batch = model.Batch(
                identity=model.Identity(tenant="t", process="p", run="r"),
                received_ns=at(number),
                position=str(number),
                sender="sdk",
                sequence=number + 1,
                series=[model.Series(metric=f"name_{number}_{place}", times_ns=times, values=[1.0, 2.0]) for place in range(8)],
            )
            stages.give("worker", batch, at(number))
            out = stages.take_output()
            metrics.lost(out.dropped)
            assert len(out.rollups) == (8, 2, 0)[number]
    assert registry.get_sample_value("firstfault_detect_dropped_points_total", {"reason": "series_limit"}) == 2 * (6 + 8)
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 1
    assert "process 'p' of run 'r'" in told[0]
