"""Sends batches over OTLP/HTTP from a thread, so that a dead or slow service never delays noticing a death.

Heartbeats are about now: only the newest waits, and one that fails is dropped and counted. Everything else is kept in order
within a bound and sent again, under the same batch number, until the service answers or the sidecar's time is up.
"""

import random
import threading
import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from firstfault._http import Poster
from firstfault._sidecar_config import AttributeValue
from firstfault.sidecar.records import request

_TIMEOUT_S = 3.0
_FIRST_BACKOFF_S, _LONGEST_BACKOFF_S = 0.25, 5.0
_LONGEST_RETRY_AFTER_S = 30.0
_KEPT_BYTES = 1024 * 1024


@dataclass(frozen=True)
class Batch:
    """One request body under its number."""

    seq: int
    body: bytes
    kept: bool
    """Try again until it arrives."""


class Sender:
    """Numbers batches, queues them and sends them from its own thread."""

    def __init__(self, endpoint: str, headers: Mapping[str, str], resource: Mapping[str, AttributeValue]) -> None:
        """Raises ValueError for an endpoint that is no HTTP address."""
        self._poster = Poster(endpoint, headers)
        self._resource = resource
        self._seq = 0
        self.dropped: Counter[str] = Counter()
        self._wake = threading.Condition()
        self._kept: deque[Batch] = deque()
        self._newest_heartbeat: Batch | None = None
        self._sending: Batch | None = None
        self._closing = False
        threading.Thread(target=self._run, name="firstfault-sender", daemon=True).start()

    def heartbeat(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Send soon, or let the next heartbeat take its place."""
        with self._wake:
            if self._newest_heartbeat is not None:
                self.dropped["heartbeat_superseded"] += 1
            self._newest_heartbeat = self._number(records, kept=False)
            self._wake.notify()

    def keep(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Send in order and try again; beyond 1 MB of waiting batches the oldest is dropped and counted."""
        with self._wake:
            self._kept.append(self._number(records, kept=True))
            while len(self._kept) > 1 and sum(len(batch.body) for batch in self._kept) > _KEPT_BYTES:
                self._kept.popleft()
                self.dropped["queue_full"] += 1
            self._wake.notify()

    def drain(self, timeout_s: float) -> list[Batch]:
        """Wait until all kept batches are sent, at most `timeout_s`; return those that are not. Nothing is sent after it."""
        deadline = time.monotonic() + timeout_s
        with self._wake:
            self._newest_heartbeat = None
            self._wake.notify()
            self._wake.wait_for(lambda: not self._waiting(), timeout=max(0.0, deadline - time.monotonic()))
            self._closing = True
            self._wake.notify()
            return self._waiting()

    def _waiting(self) -> list[Batch]:
        in_hand = [self._sending] if self._sending is not None and self._sending.kept else []
        return in_hand + list(self._kept)

    def _number(self, records: Sequence[Mapping[str, Any]], *, kept: bool) -> Batch:
        self._seq += 1
        return Batch(self._seq, request(self._resource, self._seq, self.dropped, records), kept)

    def _run(self) -> None:
        backoff_s = _FIRST_BACKOFF_S
        while True:
            with self._wake:
                self._wake.wait_for(lambda: self._closing or self._kept or self._newest_heartbeat is not None)
                if self._closing:
                    return
                if self._kept:
                    batch = self._kept.popleft()
                else:
                    assert self._newest_heartbeat is not None
                    batch, self._newest_heartbeat = self._newest_heartbeat, None
                self._sending = batch
            retry_after_s = self._post(batch)
            with self._wake:
                self._sending = None
                if retry_after_s is not None and batch.kept:
                    self._kept.appendleft(batch)
                elif retry_after_s is not None:
                    self.dropped["heartbeat_unsent"] += 1
                self._wake.notify_all()
                if retry_after_s is None:
                    backoff_s = _FIRST_BACKOFF_S
                    continue
                # Jitter spreads the reconnects of a thousand ranks after an outage of the service.
                pause_s = max(min(retry_after_s, _LONGEST_RETRY_AFTER_S), backoff_s * random.uniform(0.5, 1.0))
                self._wake.wait_for(lambda: self._closing, timeout=pause_s)
            backoff_s = min(backoff_s * 2, _LONGEST_BACKOFF_S)

    def _post(self, batch: Batch) -> float | None:
        """None: done with it, accepted or refused for good. Else: try again after so many seconds at least."""
        reply = self._poster.post("/v1/logs", batch.body, "application/json", "", _TIMEOUT_S)
        # OTLP does not have a plain 500 tried again; it is what a crashing service answers, and tries here are few.
        if reply.verdict in ("try_again", "failed"):
            return reply.retry_after_s or 0.0
        if reply.verdict == "refused":
            self.dropped[f"refused_{reply.reason}"] += 1
        return None
