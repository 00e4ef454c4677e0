"""What the writer counts: what it stored, what it could not use, and how long each hop took."""

from collections.abc import Iterable
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram

SECOND_NS: Final = 1_000_000_000
HOPS_S: Final = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2, 3, 5, 10, 30, 60, 300)


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
        self._hops = Histogram(
            "firstfault_hop_seconds",
            "Time of a hop: receipt_to_detected (receipt until detection wrote), detected_to_stored",
            ["hop", "kind"],
            buckets=HOPS_S,
            registry=registry,
        )

    def stored(self, kind: str, count: int) -> None:
        """Records of a kind are durable in their store."""
        self._stored.labels(kind).inc(count)

    def dead_letter(self, reason: str, count: int = 1) -> None:
        """Records that could not be used and were kept as dead letters."""
        self._letters.labels(reason).inc(count)

    def hop(self, hop: str, kind: str, spans_ns: Iterable[int]) -> None:
        """Times of a hop in nanoseconds; clocks of hosts differ, so that less than nothing counts as nothing."""
        seen = self._hops.labels(hop, kind)
        for span_ns in spans_ns:
            seen.observe(max(span_ns, 0) / SECOND_NS)
