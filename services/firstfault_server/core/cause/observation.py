"""What is known of one rank when the first fault is sought, and the verdict: the language of `first_fault.decide`.

The run stage builds observations from records, `explain` builds them from log text.
"""

from typing import Literal, TypeAlias

import msgspec

from firstfault_server.core.model import ExceptionInfo, Role, Scope

FaultKind: TypeAlias = Literal["exception", "log", "signal", "exit", "silence", "node", "metric"]


class Fault(msgspec.Struct, array_like=True, omit_defaults=True):
    """One piece of evidence about one process. Fields are only ever added at the end (states keep them as arrays)."""

    id: str
    kind: FaultKind
    symptom: str
    role: Role = "unknown"
    """What the text or signal suggests by itself."""
    time_ns: int = 0
    """Sender's time."""
    received_ns: int = 0
    text: str = ""
    """One line."""
    source: str = ""
    fatal: bool = False
    """It ended the process."""
    weight: float = 1.0
    """How much the text says, log-odds."""
    fingerprint: str = ""
    stack_hash: str = ""
    exception_type: str = ""
    pattern: str = ""
    step: int | None = None
    phase: str = ""
    trace_id: str = ""
    missing: list[int] = []
    """Ranks this evidence says are absent."""
    place: int = 0
    """Order within its process among equal times."""


class NodeFact(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A kernel-level fact about a node, as far as first-fault reasoning needs it."""

    id: str
    node: str
    kind: str
    """xid | oom_kill | kernel | silent"""
    symptom: str
    initiates: bool = True
    """False: a follow-up of a process's own crash (application Xid), or news that no process suffered from."""
    process: str = ""
    time_ns: int = 0
    received_ns: int = 0
    text: str = ""
    code: int | None = None
    gpu_uuid: str = ""


class RankObservation(msgspec.Struct, kw_only=True):
    """One rank (or process without rank) at the moment of judgement."""

    rank: int | None
    process: str = ""
    node: str = ""
    stage: str = ""
    """Ranks of one pipeline stage are peers: their steps and phases compare."""
    step: int | None = None
    phase: str = ""
    group: str = ""
    """Process group of the newest collective record."""
    sequence: int | None = None
    entered: bool = False
    """The newest collective was entered and not completed."""
    faults: list[Fault] = []
    ended: bool = False
    end: str = ""
    """State of the exit record, empty while the process lives."""
    stop_ns: int = 0
    """Sender's time of the first request to stop (SIGTERM, SIGINT, KeyboardInterrupt); 0: none."""
    silent: bool = False
    never_seen: bool = False
    stalled: bool = False
    """Alive, and without progress for longer than its budget; of a process that has ended since, whether a hang was confirmed before."""
    gpu_uuid: str = ""
    skew_ns: int = 0
    """Add to the sender's times to compare hosts."""


class RoleOf(msgspec.Struct, kw_only=True):
    """The part one observation played."""

    process: str
    rank: int | None
    role: Role
    why: str = ""


class Verdict(msgspec.Struct, kw_only=True):
    """What failed first, as far as the evidence carries."""

    symptom: str
    scope: Scope = "rank"
    rank: int | None = None
    process: str = ""
    """The process that failed first, also where it has no rank."""
    node: str = ""
    candidates: list[int] = []
    roles: list[RoleOf] = []
    fault: Fault | None = None
    """The evidence the symptom rests on."""
    fact: NodeFact | None = None
    exception: ExceptionInfo | None = None
    why: str = ""
    not_seen: list[str] = []
    stopped: bool = False
    """Somebody asked the run to stop before anything failed: nothing to open."""
    certain: bool = True
    """False: only ranks that wait or react have spoken."""
