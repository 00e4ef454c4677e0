"""The table of metrics: what each service has under `/metrics`, read from the classes that make them."""

import io
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import structlog
from prometheus_client import CollectorRegistry, Counter
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.registry import Collector

from firstfault_server import telemetry
from firstfault_server.cli.own_telemetry import OwnTelemetry
from firstfault_server.detect.telemetry import DetectMetrics
from firstfault_server.ingest.telemetry import IngestMetrics
from firstfault_server.telemetry import AlertMetrics, ApiMetrics, ConsumingMetrics
from firstfault_server.writer.retention import RetentionMetrics
from firstfault_server.writer.telemetry import WriterMetrics

PREFIX: Final = "firstfault_"
SERVICES: Final[Mapping[str, Sequence[Callable[[CollectorRegistry], object]]]] = {
    "ingest": (IngestMetrics,),
    "writer": (WriterMetrics, ConsumingMetrics, RetentionMetrics),
    "alerter": (AlertMetrics, ConsumingMetrics),
    "api": (ApiMetrics, AlertMetrics),
    "up": (IngestMetrics, DetectMetrics, RetentionMetrics, ApiMetrics, AlertMetrics),
}
"""What each makes at its start; the tests compare it with what the services answer."""


class _Noted(CollectorRegistry):
    """Remembers what was registered, also what has no value yet."""

    def __init__(self) -> None:
        super().__init__()
        self.metrics: list[MetricWrapperBase] = []

    def register(self, collector: Collector) -> None:
        """Take one."""
        super().register(collector)
        if isinstance(collector, MetricWrapperBase):
            self.metrics.append(collector)


def _of_every_service(registry: CollectorRegistry) -> None:
    OwnTelemetry("", "", "", "", 1.0, 0.0, registry, structlog.get_logger())


def rows() -> list[tuple[str, str, str, str, str]]:
    """Name, kind, labels, meaning, and the services that have it, by name."""
    found: dict[str, tuple[str, str, str]] = {}
    where: dict[str, list[str]] = {}
    for service, made in SERVICES.items():
        registry = _Noted()
        for make in (*made, _of_every_service):
            make(registry)
        for metric in registry.metrics:
            (described,) = metric.describe()
            name = f"{described.name}_total" if isinstance(metric, Counter) else described.name
            found[name] = described.type, ", ".join(metric._labelnames), described.documentation.rstrip(".")
            where.setdefault(name, []).append(service)
    for described in telemetry.registry(telemetry.Lines(io.StringIO())).collect():
        if described.name.startswith(PREFIX):
            found[described.name] = described.type, "", described.documentation.rstrip(".")
            where[described.name] = list(SERVICES)
    return [(name, *found[name], ", ".join(where[name])) for name in sorted(found)]
