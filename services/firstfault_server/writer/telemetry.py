"""What the writer counts: what it stored, what it could not use, and how long each hop took."""

from prometheus_client import CollectorRegistry, Counter

from firstfault_server.telemetry import HopMetrics


class WriterMetrics:
    """Counters of the writer; every record that is not stored has a reason."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._stored = Counter("firstfault_writer_stored", "Records stored, by kind", ["kind"], registry=registry)
        self._letters = Counter(
            "firstfault_writer_dead_letters",
            "Records that became dead letters, by reason: unreadable, refused",
            ["reason"],
            registry=registry,
        )
        self.hops = HopMetrics(registry)

    def stored(self, kind: str, count: int) -> None:
        """Records of a kind are durable in their store."""
        self._stored.labels(kind).inc(count)

    def dead_letter(self, reason: str, count: int = 1) -> None:
        """Records that could not be used and were kept as dead letters."""
        self._letters.labels(reason).inc(count)
