"""Shapes of the API's answers for the OpenAPI document; `core.documents` builds them, tests hold the two together."""

from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel, ConfigDict, Field

Severity = Literal["critical", "error", "warning", "info"]
Role = Literal["initiating", "cascade", "waiting", "teardown", "unknown"]
Scope = Literal["rank", "node", "group", "all"]
Number = float | Literal["NaN", "Infinity", "-Infinity"] | None
RunStateName = Literal["running", "finished", "failed", "killed", "preempted", "cancelled", "time_limit", "unreachable"]


class Shape(BaseModel):
    """Base: exactly these members, unless a shape says otherwise."""

    model_config = ConfigDict(extra="forbid")


class Problem(BaseModel):
    """RFC 9457 problem; further members depend on its type."""

    type: str
    title: str
    status: int
    detail: str
    request_id: str


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
    triage: Triage


Cursor = Annotated[str | None, Field(description="Pass it as `cursor` for the next page; null: that was all.")]


class IncidentPage(Shape):
    """A page of incidents."""

    items: list[Incident]
    next_cursor: Cursor


class Attempt(Shape):
    """One attempt of a run."""

    attempt: int
    started_at: datetime


class Rank(Shape):
    """Where one rank stands."""

    rank: int | None
    process: str
    node: str
    local_rank: int | None
    pid: int | None
    gpu_uuid: str
    state: RunStateName
    state_reason: str
    step: int | None
    phase: str
    last_seen: datetime | None


class Run(Shape):
    """One run."""

    id: str
    tenant: str
    name: str
    owner: str
    job_id: str
    command: str
    launcher: str
    log_paths: list[str]
    world_size: int | None
    nodes: list[str]
    attempt: int
    attempts: list[Attempt]
    state: RunStateName
    state_reason: str
    started_at: datetime
    updated_at: datetime
    ended_at: datetime | None
    step: int | None
    incidents: list[str]
    notes: list[str]


class RunPage(Shape):
    """A page of runs."""

    items: list[Run]
    next_cursor: Cursor


class NotePage(Shape):
    """All notes of an incident."""

    items: list[Note]
    next_cursor: Cursor


class Key(Shape):
    """An API key without its secret."""

    id: str
    tenant: str
    name: str
    scopes: list[Literal["ingest", "node", "read", "write", "admin"]]
    created_at: datetime
    revoked_at: datetime | None
    last_used_at: datetime | None


class NewKey(Key):
    """A key just made; `key` is shown this once."""

    key: str


class KeyPage(Shape):
    """All keys of a tenant."""

    items: list[Key]
    next_cursor: Cursor


class Destination(Shape):
    """Where pages go."""

    id: str
    name: str
    kind: str
    url: str
    where: str
    enabled: bool
    disabled_why: str
    allow_private: bool
    created_at: datetime


class NewDestination(Destination):
    """A destination just made; `secret` is shown this once."""

    secret: str


class DestinationPage(Shape):
    """All destinations of a tenant."""

    items: list[Destination]
    next_cursor: Cursor


class Delivery(Shape):
    """One try to deliver one message."""

    id: str
    message: str
    destination: str
    incident: str
    kind: Literal["opened", "corrected", "resolved", "test"]
    attempt: int
    time: datetime
    duration_s: float
    status: int | None
    error: str
    delivered: bool


class DeliveryPage(Shape):
    """A page of tries."""

    items: list[Delivery]
    next_cursor: Cursor


AttributeValue = str | int | float | bool | None
AttributeValues = AttributeValue | list[AttributeValue]


class Event(Shape):
    """One acknowledged exception or log record."""

    id: str
    time: datetime
    received: datetime
    run: str
    attempt: int | None
    rank: int | None
    node: str
    process: str
    event_name: str
    severity: int
    body: str
    exception: ExceptionInfo | None
    fingerprint: str
    symptom: str
    step: int | None
    phase: str
    trace_id: str
    span_id: str
    attributes: dict[str, AttributeValues]


class EventPage(Shape):
    """A page of events."""

    items: list[Event]
    next_cursor: Cursor


class FingerprintGroup(Shape):
    """Equal failure texts."""

    fingerprint: str
    symptom: str
    type: str
    message: str
    count: int
    first_seen: datetime
    last_seen: datetime
    runs: list[str]
    nodes: list[str]


class FingerprintPage(Shape):
    """A page of groups."""

    items: list[FingerprintGroup]
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


class EvidenceWithEvent(Evidence):
    """An observation, and the event behind it where one is kept."""

    event: Event | None


class EvidencePage(Shape):
    """Everything a verdict rests on."""

    items: list[EvidenceWithEvent]
    not_seen: list[str]
    next_cursor: Cursor


class SimilarIncident(Shape):
    """Another incident, and in what it is alike."""

    why: str
    incident: Incident


class SimilarPage(Shape):
    """Incidents alike, the closest first."""

    items: list[SimilarIncident]
    next_cursor: Cursor


class Node(Shape):
    """A node and what ran and failed there."""

    node: str
    runs: int
    running: int
    first_faults: int
    open: int
    last_seen: datetime


class NodePage(Shape):
    """Nodes, those with most failures first; `partial` when there was more to read than is read."""

    items: list[Node]
    next_cursor: Cursor
    partial: bool


class Figures(Shape):
    """What one rank sent of one metric."""

    count: int
    mean: Number
    last: Number
    nonfinite: int
    last_time: datetime | None


class RankWithFigures(Rank):
    """A rank; `figures` are there when a metric was asked for."""

    figures: Figures | None = None


class RankPage(Shape):
    """All ranks of a run."""

    items: list[RankWithFigures]
    next_cursor: Cursor


class MetricNames(Shape):
    """Metrics of a run."""

    items: list[str]
    next_cursor: Cursor


class Point(Shape):
    """One bucket."""

    time: datetime
    count: int
    mean: Number
    min: Number
    max: Number
    last: Number
    nonfinite: int
    step_min: int | None
    step_max: int | None


class Series(Shape):
    """Buckets of one rank and process."""

    rank: int | None
    process: str
    points: list[Point]


class SeriesPage(Shape):
    """One metric of a run."""

    run: str
    metric: str
    items: list[Series]
    next_cursor: Cursor


class Health(Shape):
    """State of the service."""

    status: str
    problems: dict[str, str] = {}


def install(app: FastAPI) -> None:
    """OpenAPI 3.1 with the problem document as the body of every error."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            schema = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
            parts = schema.setdefault("components", {}).setdefault("schemas", {})
            parts["Problem"] = Problem.model_json_schema()
            parts.pop("HTTPValidationError", None)
            parts.pop("ValidationError", None)
            for path in schema["paths"].values():
                for operation in path.values():
                    operation["responses"].pop("422", None)
            app.openapi_schema = schema
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]
