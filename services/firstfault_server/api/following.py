"""Feeds open streams where another process detects: hears of incidents by their topic, and of marks by the audit trail.

A record of the topic comes before the writer has stored it. What a stream sends is read from the store, so an incident is announced
when its revision is there. Marks that another replica of the API wrote are no records of the topic; the audit trail has them.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from firstfault_server import ports
from firstfault_server.api.changes import Changes
from firstfault_server.core import model
from firstfault_server.wire.incoming import TopicRecord
from firstfault_server.wire.unreadable import Unreadable

READ_S: Final = 0.5
LOOK_S: Final = 0.1
"""How often the store is asked for incidents that it is to have soon."""
PATIENCE_S: Final = 30.0
"""After this an incident is announced as it is stored: the writer may be behind for long."""
AUDIT_S: Final = 1.0
AUDIT_BACK_NS: Final = 10 * model.SECOND_NS
"""How far each look at the audit trail goes back: entries become visible late."""
RETRY_S: Final = 1.0

_logger = logging.getLogger(__name__)


class Following:
    """A thread that reads, waits for the store, and announces."""

    def __init__(
        self,
        read: Callable[[float], Sequence[TopicRecord]],
        incidents: ports.IncidentStore,
        triage: ports.TriageStore,
        changes: Changes,
        clock: ports.Clock,
    ) -> None:
        """`read` gives what was written to the topic of incidents since its last call, after at most so many seconds."""
        self._read, self._incidents, self._triage, self._changes, self._clock = read, incidents, triage, changes, clock
        self._awaited: dict[tuple[str, str], tuple[int, float]] = {}
        """Revision that the store is to have, and until when it is waited for, of each incident."""
        self._seen: dict[str, int] = {}
        """Audit entries of the last seconds that were announced: id and time."""
        self._audited = 0.0
        self._stopping = threading.Event()
        self.problem = "not connected yet"
        self._thread = threading.Thread(target=self._run, name="following", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """End; open streams are told nothing more."""
        self._stopping.set()
        self._thread.join(timeout_s)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self.step(LOOK_S if self._awaited else READ_S)
                self.problem = ""
            except ports.StoreUnavailable as error:
                if not self.problem:
                    _logger.error("open streams hear nothing: %s", error)
                self.problem = str(error)
                self._stopping.wait(RETRY_S)
            except Exception as error:
                # Streams would be silent for good, and nobody would know.
                _logger.exception("open streams hear nothing")
                self.problem = f"{type(error).__name__}: {error}"
                self._stopping.wait(RETRY_S)

    def step(self, wait_s: float) -> None:
        """Read, and announce what is there. Raises StoreUnavailable."""
        self._take(self._read(wait_s))
        tenants = self._changes.tenants()
        self._awaited = {incident: awaited for incident, awaited in self._awaited.items() if incident[0] in tenants}
        self._announce([incident for incident, awaited in self._awaited.items() if self._is_stored(incident, *awaited)])
        if time.monotonic() >= self._audited + AUDIT_S:
            self._audited = time.monotonic()
            self._announce_marks(tenants)

    def _take(self, records: Iterable[TopicRecord]) -> None:
        for record in records:
            try:
                contents = record.contents()
            except Unreadable as error:
                # The writer keeps it as a dead letter.
                _logger.warning("an incident cannot be read: %s", error)
                continue
            for incident in contents:
                self._awaited[incident.tenant, incident.id] = incident.revision, time.monotonic() + PATIENCE_S

    def _is_stored(self, incident: tuple[str, str], revision: int, until: float) -> bool:
        try:
            return self._incidents.incident(*incident).revision >= revision or time.monotonic() > until
        except ports.NotFound:
            return time.monotonic() > until

    def _announce(self, incidents: Sequence[tuple[str, str]]) -> None:
        self._changes.publish(incidents)
        for incident in incidents:
            del self._awaited[incident]

    def _announce_marks(self, tenants: Iterable[str]) -> None:
        since_ns = self._clock.now_ns() - AUDIT_BACK_NS
        for tenant in tenants:
            entries = self._triage.audit(ports.ListQuery(tenant=tenant, since_ns=since_ns, limit=200)).items
            fresh = [entry for entry in entries if entry.id not in self._seen]
            self._seen |= {entry.id: entry.time_ns for entry in fresh}
            # Subjects that are no incidents are found nowhere, and so nothing is sent for them.
            self._changes.publish([(tenant, entry.subject) for entry in fresh])
        self._seen = {entry: time_ns for entry, time_ns in self._seen.items() if time_ns >= since_ns - AUDIT_BACK_NS}
