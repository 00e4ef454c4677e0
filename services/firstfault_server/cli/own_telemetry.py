"""The service's own traces and metrics over OTLP, to wherever the operator collects them. Switched off, it loads nothing.

Metrics are those of `/metrics`: the Prometheus registry is read now and then and sent as OpenTelemetry metrics.
"""

import threading
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from opentelemetry.trace import NoOpTracer, Tracer
from prometheus_client import CollectorRegistry, Counter, Metric
from structlog.typing import FilteringBoundLogger

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics import export as otel

EXPORT_S: Final = 3.0
"""How long one request to the collector may take."""
STOP_S: Final = 4.0
SCOPE: Final = "firstfault_server"


class OwnTelemetry:
    """Sends in threads of its own; a collector that is away costs the figures of that time and nothing else."""

    def __init__(
        self, service: str, instance: str, version: str, endpoint: str, interval_s: float, share: float, registry: CollectorRegistry,
        log: FilteringBoundLogger,
    ) -> None:  # fmt: skip
        """`share` of the traces are sent. `endpoint` empty: nothing is sent."""
        self._registry, self._interval_s, self._log = registry, interval_s, log
        self._started_ns = time.time_ns()
        self._stopping = threading.Event()
        self._failures = Counter(
            "firstfault_own_metrics_failures", "Sends of own metrics that the collector did not take", registry=registry
        )
        self._provider: Any = None
        self.tracer: Tracer = NoOpTracer()
        if endpoint:
            self._open(service, instance, version, endpoint.rstrip("/"), share)

    def _open(self, service: str, instance: str, version: str, endpoint: str, share: float) -> None:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased

        self._resource = Resource({"service.name": service, "service.instance.id": instance, "service.version": version})
        self._provider = TracerProvider(sampler=ParentBased(TraceIdRatioBased(share)), resource=self._resource, shutdown_on_exit=False)
        spans = OTLPSpanExporter(endpoint=f"{endpoint}/v1/traces", timeout=EXPORT_S)
        self._provider.add_span_processor(BatchSpanProcessor(spans))
        self.tracer = self._provider.get_tracer(SCOPE, version)
        self._version = version
        self._exporter = OTLPMetricExporter(endpoint=f"{endpoint}/v1/metrics", timeout=EXPORT_S)
        threading.Thread(target=self._send_metrics, name="own-metrics", daemon=True).start()

    def stop(self) -> None:
        """Send what is left, for a few seconds at most."""
        if self._provider is None:
            return
        self._stopping.set()
        # Not a thread that the interpreter would wait for.
        ending = threading.Thread(target=self._end, name="own-telemetry-end", daemon=True)
        ending.start()
        ending.join(STOP_S)

    def _end(self) -> None:
        self._export()
        self._provider.shutdown()

    def _send_metrics(self) -> None:
        while not self._stopping.wait(self._interval_s):
            self._export()

    def _export(self) -> None:
        from opentelemetry.sdk.metrics.export import MetricExportResult

        try:
            data = metrics_data(self._registry.collect(), self._started_ns, time.time_ns(), self._resource, self._version)
            taken = self._exporter.export(data) is MetricExportResult.SUCCESS
        except Exception as error:
            # Whatever it is, it must not end the thread; the exporter itself logs what the network does.
            self._log.warning("own metrics could not be sent", reason=f"{type(error).__name__}: {error}")
            taken = False
        if not taken:
            self._failures.inc()


def metrics_data(families: Iterable[Metric], started_ns: int, now_ns: int, resource: Any, version: str) -> "otel.MetricsData":
    """Prometheus metrics as OpenTelemetry metrics; kinds that it has no equal for are left out."""
    from opentelemetry.sdk.metrics import export as otel
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope

    metrics = [metric for family in families if (metric := _metric(family, started_ns, now_ns)) is not None]
    scope = otel.ScopeMetrics(scope=InstrumentationScope(SCOPE, version), metrics=metrics, schema_url="")
    return otel.MetricsData(resource_metrics=[otel.ResourceMetrics(resource=resource, scope_metrics=[scope], schema_url="")])


def _metric(family: Metric, started_ns: int, now_ns: int) -> "otel.Metric | None":
    from opentelemetry.sdk.metrics import export as otel

    cumulative = otel.AggregationTemporality.CUMULATIVE
    data: Any
    if family.type == "counter":
        totals = [sample for sample in family.samples if sample.name.endswith("_total")]
        points = [_number(sample.labels, sample.value, started_ns, now_ns) for sample in totals]
        data = otel.Sum(data_points=points, aggregation_temporality=cumulative, is_monotonic=True)
    elif family.type == "gauge":
        data = otel.Gauge(data_points=[_number(sample.labels, sample.value, now_ns, now_ns) for sample in family.samples])
    elif family.type == "histogram":
        histograms = [_histogram(labels, samples, started_ns, now_ns) for labels, samples in _by_labels(family)]
        data = otel.Histogram(data_points=histograms, aggregation_temporality=cumulative)
    else:
        return None
    return (
        otel.Metric(name=family.name, description=family.documentation, unit=family.unit or None, data=data) if data.data_points else None
    )


def _number(labels: Mapping[str, str], value: float, started_ns: int, now_ns: int) -> "otel.NumberDataPoint":
    from opentelemetry.sdk.metrics import export as otel

    return otel.NumberDataPoint(attributes=dict(labels), start_time_unix_nano=started_ns, time_unix_nano=now_ns, value=value)


def _by_labels(family: Metric) -> list[tuple[dict[str, str], list[Any]]]:
    groups: dict[tuple[tuple[str, str], ...], list[Any]] = {}
    for sample in family.samples:
        own = tuple(sorted((name, value) for name, value in sample.labels.items() if name != "le"))
        groups.setdefault(own, []).append(sample)
    return [(dict(labels), samples) for labels, samples in groups.items()]


def _histogram(labels: Mapping[str, str], samples: Iterable[Any], started_ns: int, now_ns: int) -> "otel.HistogramDataPoint":
    from opentelemetry.sdk.metrics import export as otel

    bounds: list[tuple[float, int]] = []
    total, count = 0.0, 0
    for sample in samples:
        if sample.name.endswith("_bucket"):
            bounds.append((float(sample.labels["le"]), int(sample.value)))
        elif sample.name.endswith("_sum"):
            total = sample.value
        elif sample.name.endswith("_count"):
            count = int(sample.value)
    bounds.sort()
    # Prometheus counts what is at most the bound, OpenTelemetry what lies between two bounds.
    counts = [upper - lower for (_, upper), lower in zip(bounds, [0, *(upper for _, upper in bounds)], strict=False)]
    return otel.HistogramDataPoint(
        attributes=dict(labels), start_time_unix_nano=started_ns, time_unix_nano=now_ns, count=count, sum=total, bucket_counts=counts,
        explicit_bounds=[bound for bound, _ in bounds[:-1]], min=float("nan"), max=float("nan"),
    )  # fmt: skip
