"""What the receivers count, as Prometheus metrics on a registry that is passed in."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram


class IngestMetrics:
    """Counters of the receivers; every refusal has a reason."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.requests = Counter("firstfault_ingest_requests", "Requests answered", ["transport", "signal", "status"], registry=registry)
        self.bytes = Counter("firstfault_ingest_bytes", "Bytes of bodies accepted, decompressed", ["signal"], registry=registry)
        self.entries = Counter("firstfault_ingest_entries", "Log entries appended", ["signal"], registry=registry)
        self.rejected = Counter(
            "firstfault_ingest_rejected", "Points, log records and spans refused", ["signal", "reason"], registry=registry
        )
        self.refused = Counter("firstfault_ingest_refused", "Requests refused as a whole", ["reason"], registry=registry)
        self.queue_bytes = Gauge("firstfault_ingest_queue_bytes", "Bytes of bodies between receipt and the log", registry=registry)
        self.append_seconds = Histogram(
            "firstfault_ingest_append_seconds",
            "Time from handing entries to the log until they were durable",
            buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10),
            registry=registry,
        )
        self.stale_keys = Counter(
            "firstfault_ingest_stale_keys", "Senders taken by an old look-up because the store of keys was away", registry=registry
        )
        self.clock_behind_seconds = Gauge(
            "firstfault_ingest_clock_behind_seconds", "How far this clock was behind the newest receive time in the log", registry=registry
        )
        self._answered: dict[tuple[str, str, int | str], Counter] = {}

    def answered(self, transport: str, signal: str, status: int | str) -> None:
        """Count an answer; the child is looked up once, as this happens for every request."""
        key = (transport, signal, status)
        child = self._answered.get(key)
        if child is None:
            child = self._answered[key] = self.requests.labels(transport, signal, str(status))
        child.inc()

    def taken(self, signal: str, size: int, entries: int) -> None:
        """Count an accepted request."""
        self.bytes.labels(signal).inc(size)
        self.entries.labels(signal).inc(entries)
