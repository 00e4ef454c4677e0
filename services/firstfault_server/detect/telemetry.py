"""What the host counts, as Prometheus metrics on a registry that is passed in."""

import logging
from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from firstfault_server.core import model

_logger = logging.getLogger(__name__)


class DetectMetrics:
    """Counters of the embedded host."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.entries = Counter("firstfault_detect_entries", "Log entries read", ["signal"], registry=registry)
        self.points = Counter("firstfault_detect_points", "Metric points decoded", registry=registry)
        self.clamped = Counter("firstfault_detect_clamped_points", "Points whose time was absurd and replaced", registry=registry)
        self.records = Counter("firstfault_detect_log_records", "Log records decoded", registry=registry)
        self.dead_letters = Counter("firstfault_detect_dead_letters", "Records that could not be used", registry=registry)
        self.dropped = Counter(
            "firstfault_detect_dropped_points", "Metric points that are not stored, by reason", ["reason"], registry=registry
        )
        self.written = Counter("firstfault_detect_written", "Records written to stores", ["kind"], registry=registry)
        self.retries = Counter("firstfault_detect_store_retries", "Writes repeated because a store was unavailable", registry=registry)
        self.reached = Gauge("firstfault_detect_reached_timestamp_seconds", "Receive time that detection has reached", registry=registry)
        self.keys = Gauge("firstfault_detect_keys", "Live states", ["stage"], registry=registry)
        self.commit_seconds = Histogram(
            "firstfault_detect_commit_seconds",
            "Time to write outputs and commit",
            buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10),
            registry=registry,
        )
        self._entries: dict[str, Counter] = {}

    def lost(self, dropped: Iterable[model.Dropped]) -> None:
        """Count points that are not stored; the first of a process are told."""
        for one in dropped:
            self.dropped.labels(one.reason).inc(one.points)
            if one.first:
                _logger.warning(
                    "process %r of run %r (tenant %r) sends too many different series: points of further ones are dropped (%s)",
                    *(one.process, one.run, one.tenant, one.reason),
                )

    def read(self, signal: str) -> None:
        """Count a log entry; the child is looked up once, as this happens for every entry."""
        child = self._entries.get(signal)
        if child is None:
            child = self._entries[signal] = self.entries.labels(signal)
        child.inc()
