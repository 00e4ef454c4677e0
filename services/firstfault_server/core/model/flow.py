"""What stages tell each other: summaries, presence, events, findings, faults of nodes."""

import msgspec

from firstfault_server.core.model.base import Attribute, Record, Role
from firstfault_server.core.model.inputs import Identity


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
    gap: bool = False
    """Batches are here that were sent after one that is still on its way."""


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
    text_weight: float = 0.0
    """How much the text says, log-odds."""
    text_pattern: str = ""
    """Pattern that matched."""
    text_domains: dict[str, float] = {}
    """Log-odds the pattern adds to domains."""
    stack_hash: str = ""
    """In-app hash of the fingerprint, empty without a stack."""
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
    initiates: bool = True
    """False: follows a process's own crash (application Xids), so it is evidence only."""
    text: str = ""
    time_ns: int
    received_ns: int
