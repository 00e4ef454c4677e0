"""Incidents and what surrounds them."""

from datetime import datetime
from typing import Any, Literal

from firstfault_server.api.schemas.base import Cursor, Number, Shape

Severity = Literal["critical", "error", "warning", "info"]
Role = Literal["initiating", "cascade", "waiting", "teardown", "unknown"]
Scope = Literal["rank", "node", "group", "all"]


class ExceptionInfo(Shape):
    """An exception."""

    type: str
    message: str
    stacktrace: str


class RunReference(Shape):
    """The run of an incident."""

    id: str
    attempt: int
    name: str
    owner: str
    job_id: str
    command: str
    log_paths: list[str]
    world_size: int | None
    nodes: list[str]


class Cause(Shape):
    """Who has to act, as probabilities."""

    domain: str
    confidence: float
    domains: dict[str, float]


class FirstFault(Shape):
    """What failed first; `rank` is null when the evidence names no single rank."""

    status: Literal["provisional", "settled"]
    rank: int | None
    scope: Scope
    candidates: list[int]
    local_rank: int | None
    node: str | None
    gpu_uuid: str | None
    pid: int | None
    process: str | None
    phase: str | None
    step: int | None
    time: datetime | None
    exception: ExceptionInfo | None
    trace_id: str | None
    stderr_tail: list[str]


class RankRole(Shape):
    """The part that one rank played."""

    rank: int | None
    role: Role
    why: str


class Evidence(Shape):
    """One observation."""

    id: str
    kind: Literal["exception", "log", "metric", "signal", "silence", "node"]
    rank: int | None
    node: str
    time: datetime | None
    text: str
    source: str
    role: Role


class Fingerprint(Shape):
    """Identity of the failure's text."""

    version: int
    id: str
    stack_hash: str


class History(Shape):
    """Whether it was seen before."""

    first_seen: datetime | None
    count_24h: int
    count_7d: int
    runs: list[str]
    same_node: int
    group: str
    why: str


class Impact(Shape):
    """What it cost so far."""

    gpus: int | None
    idle_s: Number
    gpu_hours_lost: Number
    last_checkpoint_step: int | None
    steps_lost: int | None


class Advice(Shape):
    """One thing to do, and why it applies."""

    text: str
    because: str


class Note(Shape):
    """What a person wrote."""

    id: str
    author: str
    time: datetime
    text: str


class Triage(Shape):
    """People's marks; `version` is the ETag."""

    version: int
    ack_by: str | None
    ack_at: datetime | None
    assignee: str | None
    muted_until: datetime | None
    resolved_by: str | None
    notes: list[Note]


class SilencedBy(Shape):
    """A silence that keeps an incident quiet now."""

    id: str
    ends_at: datetime
    author: str
    comment: str


class Incident(Shape):
    """One failure of one run."""

    id: str
    revision: int
    state: Literal["open", "acknowledged", "resolved"]
    severity: Severity
    page: bool
    title: str
    url: str
    tenant: str
    run: RunReference
    symptom: str
    family: str
    layer: str
    seen: str
    time_pattern: str
    cause: Cause
    first_fault: FirstFault
    ranks: list[RankRole]
    evidence: list[Evidence]
    not_seen: list[str]
    fingerprint: Fingerprint
    history: History
    impact: Impact
    advice: list[Advice]
    recurrences: int
    attempts: list[int]
    opened_at: datetime
    updated_at: datetime
    resolved_at: datetime | None
    resolved_why: str
    silences: list[SilencedBy]
    triage: Triage


class IncidentPage(Shape):
    """A page of incidents."""

    items: list[Incident]
    next_cursor: Cursor


class NotePage(Shape):
    """All notes of an incident."""

    items: list[Note]
    next_cursor: Cursor


class TimelineEntry(Shape):
    """Something that happened to an incident."""

    time: datetime
    what: Literal["detected", "person", "message"]
    action: str
    actor: str
    detail: dict[str, Any]


class TimelinePage(Shape):
    """All that happened, oldest first."""

    items: list[TimelineEntry]
    next_cursor: Cursor


class SimilarIncident(Shape):
    """Another incident, and in what it is alike."""

    why: str
    incident: Incident


class SimilarPage(Shape):
    """Incidents alike, the closest first."""

    items: list[SimilarIncident]
    next_cursor: Cursor
