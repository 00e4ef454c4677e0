"""What the service needs from the outside world, as protocols; adapters implement them, contract suites test them.

Every store call is blocking and safe to call from several threads; async callers go through `asyncio.to_thread`.
A store that cannot answer raises `StoreUnavailable`; one that is out of space raises `StorageFull`.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final, Generic, Literal, Protocol, TypeAlias, TypeVar

import msgspec

from firstfault_server.core import model
from firstfault_server.core.search import And, Expression

Signal: TypeAlias = Literal["metrics", "logs", "traces", "clock"]
T = TypeVar("T")
MAX_SILENCES: Final = 1000
"""Silences of one tenant that count at once."""


class StoreUnavailable(Exception):
    """A store cannot answer now; the message says which and what to do."""


class StorageFull(StoreUnavailable):
    """No space left for the store; the message names the path and what to free."""


class VersionConflict(Exception):
    """Compare-and-set failed: somebody else wrote first."""


class NotFound(Exception):
    """No such thing for this tenant."""


# ---- log ----------------------------------------------------------------------------------------------------------------


class LogEntry(msgspec.Struct, kw_only=True, frozen=True, array_like=True):
    """One record of the input log: OTLP protobuf of exactly one training process, or a clock record (no key, no body)."""

    tenant: str
    process: str
    signal: Signal
    received_ns: int
    body: bytes = b""


class Log(Protocol):
    """The input log. Order is order of append; a position is an opaque string that sorts like the order within one partition."""

    async def append(self, entries: Sequence[LogEntry]) -> None:
        """Return when the entries are durable. Raises StorageFull, StoreUnavailable."""

    def read(self, after: str | None, limit_bytes: int) -> list[tuple[str, LogEntry]]:
        """Entries after a position (None: from the oldest kept), at most about `limit_bytes`; [] when there are none yet."""

    def wait(self, after: str | None, timeout_s: float) -> bool:
        """Block until something lies after the position; False on time-out."""

    def prune(self, before: str) -> None:
        """Forget entries up to and including a position that no reader needs any more."""

    def close(self) -> None:
        """Flush and release; appends after it raise StoreUnavailable."""


# ---- pages of lists -----------------------------------------------------------------------------------------------------


class Page(msgspec.Struct, Generic[T], kw_only=True):
    """Items and the key after which the next page starts (None: that was all)."""

    items: list[T]
    next_key: list[Any] | None = None


class ListQuery(msgspec.Struct, kw_only=True, frozen=True):
    """A list request: newest first, event time half-open [since_ns, until_ns)."""

    tenant: str
    where: Expression = And()
    since_ns: int | None = None
    until_ns: int | None = None
    limit: int = 50
    after: tuple[Any, ...] | None = None
    """`next_key` of the page before."""


# ---- stores -------------------------------------------------------------------------------------------------------------


class Audit(msgspec.Struct, kw_only=True):
    """Who changed what, when."""

    id: str
    tenant: str
    time_ns: int
    actor: str
    action: str
    subject: str
    detail: dict[str, Any] = {}


class ContextStore(Protocol):
    """Raw context: events with full text."""

    def write_events(self, events: Sequence[model.Event]) -> None:
        """Insert; an id that is there already stays as it is."""

    def event(self, tenant: str, event_id: str) -> model.Event:
        """Raises NotFound."""

    def events(self, query: ListQuery) -> Page[model.Event]:
        """Search keys: run, rank, node, process, event, severity, fingerprint, symptom, attempt, trace; free text: body, exception."""

    def fingerprints(self, query: ListQuery) -> Page[dict[str, Any]]:
        """Per fingerprint: fingerprint, symptom, type, message, count, first_seen_ns, last_seen_ns, runs (≤10), nodes (≤10)."""

    def write_dead_letters(self, letters: Sequence[model.DeadLetter]) -> None:
        """Keep what could not be used, bounded by age and size."""

    def prune(self, before_ns: int) -> int:
        """Drop what is older; returns how many events went."""


class IncidentStore(Protocol):
    """Incidents and runs as detection wrote them."""

    def write_incidents(self, incidents: Sequence[model.Incident]) -> None:
        """Upsert; a revision lower than the stored one changes nothing."""

    def incident(self, tenant: str, incident_id: str) -> model.Incident:
        """Raises NotFound."""

    def incidents(self, query: ListQuery, now_ns: int) -> Page[tuple[model.Incident, model.Triage]]:
        """Filters see the merged view: `is:open|acknowledged|resolved|muted|page|settled|provisional`, with `now_ns` for mutes."""

    def revisions(self, tenant: str, incident_id: str) -> list[model.Incident]:
        """Every stored revision, oldest first: the timeline."""

    def write_runs(self, runs: Sequence[model.RunStatus]) -> None:
        """Upsert by revision."""

    def run(self, tenant: str, run: str) -> model.RunStatus:
        """Raises NotFound."""

    def runs(self, query: ListQuery) -> Page[model.RunStatus]:
        """Search keys: run, state, owner, node, name; newest update first."""

    def prune_incidents(self, before_ns: int, limit: int) -> list[tuple[str, str]]:
        """Drop incidents that are resolved, by detection or people, since before a time, with their revisions and marks.

        Never one that is not resolved. At most `limit` of them; returns (tenant, id) of those that went.
        """

    def prune_runs(self, before_ns: int, limit: int) -> int:
        """Drop runs last updated before a time, at most `limit`; one that an incident in the store is about stays. Returns how many."""


class TriageStore(Protocol):
    """People's marks: compare-and-set, audited."""

    def triage(self, tenant: str, incident_id: str) -> model.Triage:
        """Version 0 when nobody has touched it."""

    def put_triage(self, triage: model.Triage, audit: Audit) -> model.Triage:
        """Write version+1 if the stored version equals `triage.version`; else VersionConflict. The audit entry commits with it."""

    def audit(self, query: ListQuery) -> Page[Audit]:
        """Audit trail, newest first."""

    def prune_audit(self, before_ns: int) -> int:
        """Drop entries that are older; returns how many went."""

    def remember(self, tenant: str, idempotency_key: str, request_hash: str, response: bytes) -> None:
        """Keep the answer of a write for a day."""

    def recall(self, tenant: str, idempotency_key: str) -> tuple[str, bytes] | None:
        """(request_hash, response) of an earlier write with this key."""


class SilenceStore(Protocol):
    """Silences: compare-and-set, audited. One that has ended stays on record until `prune`."""

    def silence(self, tenant: str, silence_id: str) -> model.Silence:
        """Raises NotFound."""

    def put_silence(self, silence: model.Silence, audit: Audit) -> model.Silence:
        """Write version+1 if the stored version (0: none) equals `silence.version`, and the audit entry with it; else VersionConflict."""

    def silences(self, query: ListQuery, now_ns: int) -> Page[model.Silence]:
        """Newest first by creation. Search keys: is (pending, active or ended at `now_ns`), author."""

    def ending_after(self, tenant: str, time_ns: int) -> list[model.Silence]:
        """Those with `ends_ns` later than a time, by (created_ns, id); of more than MAX_SILENCES those that end last."""

    def prune_silences(self, before_ns: int) -> int:
        """Drop those that ended earlier; returns how many went."""


Permission: TypeAlias = Literal["ingest", "node", "read", "write", "admin"]


class AccessKey(msgspec.Struct, kw_only=True):
    """An API key; only the hash of its secret is kept."""

    id: str
    tenant: str
    name: str
    secret_hash: str
    scopes: list[Permission]
    created_ns: int
    revoked_ns: int | None = None
    last_used_ns: int | None = None


class Destination(msgspec.Struct, kw_only=True):
    """Where pages go."""

    id: str
    tenant: str
    name: str
    kind: str = "webhook"
    url: str
    secret: str = ""
    """`whsec_…`; never shown again after it was made."""
    enabled: bool = True
    disabled_why: str = ""
    allow_private: bool = False
    where: str = "is:page"
    """`q=` expression that an incident must match."""
    created_ns: int = 0


class AccessStore(Protocol):
    """Keys and destinations. The audit entry of a change commits with it; None for what is no change of a person or the service."""

    def put_key(self, key: AccessKey, audit: Audit | None = None) -> None:
        """Insert or replace by id."""

    def keys(self, tenant: str | None = None) -> list[AccessKey]:
        """All keys, or one tenant's."""

    def key_by_hash(self, secret_hash: str) -> AccessKey | None:
        """The key of a secret, revoked ones included."""

    def put_destination(self, destination: Destination, audit: Audit | None = None) -> None:
        """Insert or replace by id."""

    def destinations(self, tenant: str) -> list[Destination]:
        """One tenant's destinations, oldest first."""

    def destination(self, tenant: str, destination_id: str) -> Destination:
        """Raises NotFound."""

    def remove_destination(self, tenant: str, destination_id: str, audit: Audit | None = None) -> None:
        """Raises NotFound; then there is no audit entry either."""


MessageKind: TypeAlias = Literal["opened", "corrected", "resolved", "test"]


class Message(msgspec.Struct, kw_only=True):
    """One message about an incident to one destination; the outbox row. Its body is fixed when it is made."""

    id: str
    """webhook-id: incident id + message number; the same over all retries."""
    tenant: str
    destination: str
    incident: str
    number: int
    kind: MessageKind
    revision: int
    body: bytes
    created_ns: int
    attempts: int = 0
    next_try_ns: int = 0
    state: Literal["waiting", "delivered", "failed"] = "waiting"
    last_error: str = ""


class Delivery(msgspec.Struct, kw_only=True):
    """One try to deliver one message."""

    id: str
    tenant: str
    message: str
    destination: str
    incident: str
    kind: MessageKind
    attempt: int
    time_ns: int
    duration_s: float
    status: int | None = None
    error: str = ""
    delivered: bool = False


class Outbox(Protocol):
    """Messages waiting to be delivered, and the record of every try."""

    def add(self, messages: Sequence[Message]) -> None:
        """Insert; an id that is there already stays as it is."""

    def due(self, now_ns: int, limit: int) -> list[Message]:
        """Waiting messages whose time has come; of one incident and destination only the lowest number."""

    def record(self, message: Message, delivery: Delivery) -> None:
        """Store the message's new state and the try, in one transaction."""

    def messages(self, tenant: str, incident_id: str) -> list[Message]:
        """All messages of an incident, by destination and number."""

    def deliveries(self, query: ListQuery) -> Page[Delivery]:
        """Delivery log, newest first. Search keys: destination, incident, kind, delivered."""

    def next_due_ns(self) -> int | None:
        """When the next waiting message is due."""

    def prune_deliveries(self, before_ns: int) -> int:
        """Drop tries that are older; returns how many went. Messages stay: they say what a destination was told."""

    def forget(self, incidents: Sequence[tuple[str, str]]) -> None:
        """Drop the messages of incidents (tenant, id) that are no more, those that wait too."""


class Commit(msgspec.Struct, kw_only=True):
    """What the embedded host makes durable in one transaction after a stretch of the log."""

    position: str
    snapshots: dict[tuple[str, str], bytes | None] = {}
    """(stage, key) -> encoded state with what the host keeps beside it; None removes it."""
    incidents: list[model.Incident] = []
    runs: list[model.RunStatus] = []
    messages: list[Message] = []


class Checkpoint(Protocol):
    """Embedded only: snapshots, log position, incidents and outbox commit together."""

    def commit(self, commit: Commit) -> None:
        """All or nothing. Raises StorageFull."""

    def position(self) -> str | None:
        """Position of the last commit."""

    def snapshots(self) -> Iterable[tuple[str, str, bytes]]:
        """(stage, key, state) of everything kept."""


class SeriesPoint(msgspec.Struct, kw_only=True):
    """One bucket of a series."""

    time_ns: int
    count: int
    mean: float | None
    min: float | None
    max: float | None
    last: float | None
    nonfinite: int
    step_min: int | None
    step_max: int | None


class SeriesQuery(msgspec.Struct, kw_only=True, frozen=True):
    """Buckets of one metric of one run; `points` bounds the buckets per series, bucket width is a multiple of 10 s."""

    tenant: str
    run: str
    metric: str
    rank: int | None = None
    since_ns: int | None = None
    until_ns: int | None = None
    points: int = 500


class AggregateStore(Protocol):
    """Rollups and counts."""

    def write_rollups(self, rollups: Sequence[model.Rollup]) -> None:
        """Insert deltas; the same delta twice counts once."""

    def series(self, query: SeriesQuery) -> dict[tuple[int | None, str], list[SeriesPoint]]:
        """Buckets by (rank, process); empty buckets are left out."""

    def metrics(self, tenant: str, run: str) -> list[str]:
        """Names of the metrics a run has sent."""

    def ranks(self, tenant: str, run: str, metric: str) -> list[dict[str, Any]]:
        """Per rank: rank, process, count, mean, last, nonfinite, last_ns."""

    def prune(self, before_ns: int) -> None:
        """Drop windows that are older."""

    def close(self) -> None:
        """Release the engine."""


class Clock(Protocol):
    """Time at the edges; tests pass their own."""

    def now_ns(self) -> int:
        """Nanoseconds since the epoch."""
