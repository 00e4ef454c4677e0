"""One failure of one run, its symptom's row in the taxonomy, and people's marks on it (contract.md)."""

from typing import Annotated, Literal, TypeAlias

import msgspec

from firstfault_server.core.model.base import Record, Role, Scope, Severity, otherwise
from firstfault_server.core.model.flow import ExceptionInfo


class RunRef(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The run an incident belongs to."""

    id: str
    attempt: int = 1
    name: str = ""
    owner: str = ""
    job_id: str = ""
    command: str = ""
    log_paths: list[str] = []
    world_size: int | None = None
    nodes: list[str] = []


class Cause(msgspec.Struct, kw_only=True):
    """Who has to act, as probabilities that sum to 1."""

    domain: str = "unknown"
    confidence: float = 1.0
    domains: dict[str, float] = msgspec.field(default_factory=lambda: {"unknown": 1.0})


class FirstFault(msgspec.Struct, kw_only=True):
    """What failed first. `rank` is None when the evidence names no single rank; then `candidates` and `scope` say more."""

    status: Annotated[Literal["provisional", "settled"], otherwise("settled")] = "provisional"
    rank: int | None = None
    scope: Scope = "rank"
    candidates: list[int] = []
    local_rank: int | None = None
    node: str | None = None
    gpu_uuid: str | None = None
    pid: int | None = None
    process: str | None = None
    phase: str | None = None
    step: int | None = None
    time: int | None = None
    """Nanoseconds; RFC 3339 in the API."""
    exception: ExceptionInfo | None = None
    trace_id: str | None = None
    stderr_tail: list[str] = []


class RankRole(msgspec.Struct, kw_only=True):
    """The part one rank played."""

    rank: int | None
    role: Role
    why: str = ""


class Evidence(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One observation an incident rests on."""

    id: str
    kind: Annotated[Literal["exception", "log", "metric", "signal", "silence", "node"], otherwise("log")]
    text: str
    rank: int | None = None
    node: str = ""
    time: int | None = None
    source: str = ""
    """`file:line`, metric name, `kernel`, `sidecar` …"""
    role: Role = "unknown"


class Fingerprint(msgspec.Struct, kw_only=True):
    """Identity of a failure's text; `id` joins groups, `stack_hash` is the in-app hash."""

    version: int = 1
    id: str = ""
    stack_hash: str = ""


class History(msgspec.Struct, kw_only=True):
    """Whether this was seen before, by the fleet stage."""

    first_seen: int | None = None
    count_24h: int = 0
    count_7d: int = 0
    runs: list[str] = []
    same_node: int = 0
    group: str = ""
    why: str = ""


class Impact(msgspec.Struct, kw_only=True):
    """What the failure cost so far; None where not known."""

    gpus: int | None = None
    idle_s: float | None = None
    gpu_hours_lost: float | None = None
    last_checkpoint_step: int | None = None
    steps_lost: int | None = None


class Advice(msgspec.Struct, kw_only=True):
    """One thing to do and why it applies here."""

    text: str
    because: str


class Incident(Record, tag="incident", kw_only=True):
    """One failure of one run (contract.md). Written by detection only; people's marks live in `Triage`."""

    id: str
    revision: int
    """Grows with every change the run stage makes; the highest one is the truth."""
    tenant: str
    run: RunRef
    number: int = 1
    """n-th incident of the run."""
    state: Annotated[Literal["open", "resolved"], otherwise("open")] = "open"
    severity: Severity = "error"
    page: bool = False
    title: str = ""
    symptom: str
    family: str = "unknown"
    layer: str = "system"
    seen: str = "implicit"
    time_pattern: str = "instant"
    cause: Cause = msgspec.field(default_factory=Cause)
    first_fault: FirstFault = msgspec.field(default_factory=FirstFault)
    ranks: list[RankRole] = []
    evidence: list[Evidence] = []
    not_seen: list[str] = []
    fingerprint: Fingerprint = msgspec.field(default_factory=Fingerprint)
    history: History = msgspec.field(default_factory=History)
    impact: Impact = msgspec.field(default_factory=Impact)
    advice: list[Advice] = []
    recurrences: int = 0
    attempts: list[int] = []
    """Attempts in which it was seen."""
    opened_at: int
    updated_at: int
    resolved_at: int | None = None
    resolved_why: str = ""


class Note(msgspec.Struct, kw_only=True):
    """What a person wrote on an incident."""

    id: str
    author: str
    time_ns: int
    text: str


class Triage(msgspec.Struct, kw_only=True):
    """People's marks on an incident; written by the API with compare-and-set on `version`."""

    tenant: str
    incident: str
    version: int = 0
    """0: nobody has touched it."""
    ack_by: str | None = None
    ack_at_ns: int | None = None
    assignee: str | None = None
    muted_until_ns: int | None = None
    resolved_by: str | None = None
    resolved_at_ns: int | None = None
    reopened_at_ns: int | None = None
    notes: list[Note] = []


class Silence(msgspec.Struct, kw_only=True):
    """No messages about the incidents that a search selects, for a time; written by the API with compare-and-set on `version`."""

    id: str
    tenant: str
    where: str
    """`q=` expression that an incident must match."""
    starts_ns: int
    ends_ns: int
    """Half-open: at this time it holds no more."""
    author: str
    comment: str
    created_ns: int
    version: int = 0
    """0: not stored yet."""


class Symptom(msgspec.Struct, kw_only=True, frozen=True):
    """A row of proto/taxonomy.yaml."""

    id: str
    layer: str
    seen: str
    time: str
    family: str
    severity: Severity
    page: bool
    domains: dict[str, float]
    about: str


Taxonomy: TypeAlias = dict[str, Symptom]
