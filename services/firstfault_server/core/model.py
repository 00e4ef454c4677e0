"""Records that pass between stages, stores and the API: pure data, no behaviour.

Times are integer nanoseconds since the Unix epoch. `received_ns` is the receive time stamped by ingest: the only clock
for silence. `time_ns` is the sender's time. A record never refers to another by object, only by id.
"""

from typing import Any, Literal, TypeAlias

import msgspec

SECOND_NS = 1_000_000_000

Scalar: TypeAlias = str | int | float | bool
Attribute: TypeAlias = Scalar | list[Scalar]
Severity: TypeAlias = Literal["critical", "error", "warning", "info"]
Scope: TypeAlias = Literal["rank", "node", "group", "all"]
Role: TypeAlias = Literal["initiating", "cascade", "waiting", "teardown", "unknown"]
RunState: TypeAlias = Literal["running", "finished", "failed", "killed", "preempted", "cancelled", "time_limit", "unreachable"]


class Record(msgspec.Struct, kw_only=True, tag_field="record", omit_defaults=True):
    """Base of everything that crosses a stage boundary; msgpack carries the class name in `record`."""


class Identity(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True):
    """Which training process speaks, as its OpenTelemetry resource says after ingest stamped the tenant."""

    tenant: str
    process: str
    """`service.instance.id`, or a hash of the resource where it is absent."""
    run: str
    run_source: str = ""
    run_name: str = ""
    rank: int | None = None
    local_rank: int | None = None
    world_size: int | None = None
    role: str = "trainer"
    stage: str = ""
    launcher: str = ""
    restart_count: int | None = None
    owner: str = ""
    job_id: str = ""
    log_paths: tuple[str, ...] = ()
    command: str = ""
    node: str = ""
    cluster: str = ""
    pid: int | None = None
    gpu_uuid: str = ""
    service: str = ""
    started_ns: int | None = None


# ---- in: one decoded request of one process ---------------------------------------------------------------------------


class Series(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Points of one metric of one request, as columns of equal length, in the order sent."""

    metric: str
    attributes: dict[str, Attribute] = {}
    """Point attributes that all these points share; the step is never among them."""
    times_ns: list[int]
    values: list[float]
    """NaN and infinities are values."""
    steps: list[int | None] | None = None
    """Step of each point, joined from `train.step` by equal timestamps; None when the sender gave none."""
    clamped: int = 0
    """How many of the times were absurd and replaced by the receive time."""


class LogRecord(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One OTLP log record (or an exception event of a span, turned into one)."""

    time_ns: int
    event_name: str = ""
    severity: int = 0
    """OpenTelemetry severity number: 9 info, 13 warning, 17 error, 21 fatal; 0 when not given."""
    body: str = ""
    attributes: dict[str, Attribute] = {}
    trace_id: str = ""
    span_id: str = ""


class Batch(Record, tag="batch", kw_only=True):
    """What the worker stage reads: all series and log records of one request that belong to one process."""

    identity: Identity
    received_ns: int
    position: str
    """Where the log holds it; orders and names what is derived from it. The same record read again has the same position."""
    sender: str = ""
    """`firstfault.batch.sender`; empty for foreign senders."""
    sequence: int | None = None
    """`firstfault.batch.seq`; a redelivered batch carries the number it had."""
    series: list[Series] = []
    logs: list[LogRecord] = []


# ---- between the stages -----------------------------------------------------------------------------------------------


class Summary(Record, tag="summary", kw_only=True):
    """Worker → run, once per second of event time at most and whenever the phase changes: where a process stands."""

    identity: Identity
    received_ns: int
    """Receive time of the newest record of this process, heartbeats included."""
    time_ns: int
    """Event time of the newest point or phase record, 0 when none came yet."""
    step: int | None = None
    progress_ns: int = 0
    """Receive time at which step or phase last moved on; 0 when neither has."""
    phase: str = ""
    phase_since_ns: int = 0
    phase_expect_s: float | None = None
    pause_p99_s: float | None = None
    """Learned p99 of the time between steps; None before warm-up (30 steps)."""
    longest_pause_s: float | None = None
    """Longest time between steps that this process has come out of; None before the second step."""
    heartbeat_ns: int = 0
    """Receive time of the newest heartbeat; 0: this sender sends none."""
    step_duration_s: float | None = None
    """Median of the last steps' `train.step.duration` less `train.collective.wait`, where sent."""
    collective_group: str = ""
    collective_seq: int | None = None
    collective_state: str = ""
    checkpoint_step: int | None = None
    skew_ns: int = 0
    """Lowest receive − send over 60 s: subtract it from received times to compare hosts."""


class Presence(Record, tag="presence", kw_only=True):
    """Worker → node, every few seconds: this process runs on this node."""

    identity: Identity
    received_ns: int
    ended: bool = False


class ExceptionInfo(msgspec.Struct, kw_only=True, omit_defaults=True):
    """An exception as the API shows it."""

    type: str
    message: str = ""
    stacktrace: str = ""


class Event(Record, tag="event", kw_only=True):
    """One acknowledged exception, or log record that matters; never merged or sampled. What `/v1/events` serves.

    Worker → store for severity warning and up; → run for exceptions, exits, `train.log` and collective records;
    → node for `node.*` records.
    """

    id: str
    """Hash of process, sender, sequence and place in the batch (or content for foreign senders)."""
    identity: Identity
    time_ns: int
    received_ns: int
    event_name: str
    severity: int = 0
    body: str = ""
    exception: ExceptionInfo | None = None
    fingerprint: str = ""
    symptom: str = ""
    """Symptom the text alone suggests, by the patterns; empty when none."""
    text_role: Role = "unknown"
    """Role the text alone suggests."""
    step: int | None = None
    phase: str = ""
    trace_id: str = ""
    span_id: str = ""
    attributes: dict[str, Attribute] = {}
    attempt: int | None = None
    """Known only once the run stage assigned it; stores fill it in on read."""


class Finding(Record, tag="finding", kw_only=True):
    """A detector's statement about one series or rank; evidence for the run stage."""

    id: str
    identity: Identity
    detector: str
    symptom: str
    time_ns: int
    received_ns: int
    step: int | None = None
    metric: str = ""
    score: float = 1.0
    """0 to 1."""
    text: str = ""
    """What a person reads: the numbers that made the alarm."""
    numbers: dict[str, float] = {}
    opens: bool = True
    """False: a note only. True: enough to open an incident by itself."""
    ended: bool = False
    """The condition is over (recovered for its hold time)."""


class NodeFault(Record, tag="node_fault", kw_only=True):
    """Node → run: a kernel-level fact about a node that has processes of this run."""

    id: str
    tenant: str
    run: str
    node: str
    cluster: str = ""
    kind: str
    """xid | oom_kill | kernel | silent"""
    symptom: str = ""
    code: int | None = None
    pid: int | None = None
    gpu_uuid: str = ""
    process: str = ""
    """Process concerned, when pid and presence name one."""
    text: str = ""
    time_ns: int
    received_ns: int


# ---- out --------------------------------------------------------------------------------------------------------------


class Rollup(Record, tag="rollup", kw_only=True):
    """A delta: what one log record added to one 10 s window of one metric of one process. Readers sum the deltas.

    Key (tenant, run, process, metric, attributes, window, position): writing it twice is writing it once.
    """

    tenant: str
    run: str
    process: str
    rank: int | None = None
    node: str = ""
    metric: str
    attributes: str = ""
    """Point attributes as sorted JSON, empty when none."""
    window_ns: int
    """Start of the 10 s window, event time."""
    position: str
    count: int
    """Finite and not finite values together."""
    sum: float = 0.0
    sumsq: float = 0.0
    min: float | None = None
    max: float | None = None
    first: float | None = None
    first_ns: int = 0
    last: float | None = None
    last_ns: int = 0
    nonfinite: int = 0
    step_min: int | None = None
    step_max: int | None = None


class DeadLetter(Record, tag="dead_letter", kw_only=True):
    """Bytes that could not be used, with the reason, so that nothing vanishes unexplained."""

    id: str
    tenant: str
    received_ns: int
    reason: str
    signal: str = ""
    data: bytes = b""
    """At most 64 kB of it."""


class RankStatus(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One rank within a run, for `/v1/runs/{id}/ranks`."""

    rank: int | None = None
    process: str = ""
    node: str = ""
    local_rank: int | None = None
    pid: int | None = None
    gpu_uuid: str = ""
    state: RunState = "running"
    state_reason: str = ""
    step: int | None = None
    phase: str = ""
    last_seen_ns: int = 0


class RunStatus(Record, tag="run", kw_only=True):
    """Run → store whenever it changed (at most once a second): what `/v1/runs` serves. Highest `revision` wins."""

    tenant: str
    run: str
    revision: int
    name: str = ""
    owner: str = ""
    job_id: str = ""
    command: str = ""
    launcher: str = ""
    log_paths: list[str] = []
    world_size: int | None = None
    nodes: list[str] = []
    attempt: int = 1
    attempts_started_ns: list[int] = []
    state: RunState = "running"
    state_reason: str = ""
    started_ns: int
    updated_ns: int
    ended_ns: int | None = None
    step: int | None = None
    ranks: list[RankStatus] = []
    incidents: list[str] = []
    notes: list[str] = []


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

    status: Literal["provisional", "settled"] = "provisional"
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
    kind: Literal["exception", "log", "metric", "signal", "silence", "node"]
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
    state: Literal["open", "resolved"] = "open"
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


AnyRecord: TypeAlias = Batch | Summary | Presence | Event | Finding | NodeFault | Rollup | DeadLetter | RunStatus | Incident


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


def plain(record: msgspec.Struct) -> dict[str, Any]:
    """The record as JSON-ready builtins, for tests and codecs."""
    built: dict[str, Any] = msgspec.to_builtins(record)
    return built
