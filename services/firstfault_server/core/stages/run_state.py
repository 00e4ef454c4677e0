"""What the run stage keeps of one run: its processes, the evidence about them, and its incidents. Bounded by `Thresholds`.

Array structs take new fields at their end only (stages/codec.py).
"""

from typing import Literal, TypeAlias

import msgspec

from firstfault_server.core import model
from firstfault_server.core.cause.observation import Fault, NodeFact, Verdict
from firstfault_server.core.incident import Life

EpisodeKind: TypeAlias = Literal["failure", "numbers"]


class Exit(msgspec.Struct, array_like=True, frozen=True):
    """One exit record; a process may have two, its own and its sidecar's."""

    id: str
    time_ns: int
    received_ns: int
    state: str
    code: int | None
    signal: int | None
    source: str
    reason: str


class Member(msgspec.Struct, array_like=True):
    """One process of the run."""

    process: str
    rank: int | None = None
    local_rank: int | None = None
    node: str = ""
    stage: str = ""
    role: str = "trainer"
    pid: int | None = None
    gpu_uuid: str = ""
    started_ns: int = 0
    """Start of the process, or the lowest event time seen."""
    first_ns: int = 0
    """Receive time of its first record."""
    received_ns: int = 0
    heartbeat_ns: int = 0
    attempt: int = 0
    """0: not decided yet."""
    step: int | None = None
    progress_ns: int = 0
    phase: str = ""
    phase_expect_s: float | None = None
    pause_p99_s: float | None = None
    longest_pause_s: float | None = None
    group: str = ""
    sequence: int | None = None
    collective: str = ""
    checkpoint: int | None = None
    skew_ns: int = 0
    time_ns: int = 0
    exits: list[Exit] = []
    faults: list[Fault] = []
    stop_ns: int = 0
    silent: bool = False
    stalled: bool = False
    tail: list[str] = []
    stderr: str = ""
    domains: dict[str, dict[str, float]] = {}
    """Fault id -> log-odds its pattern adds."""
    gap: bool = False
    """Something it sent before what is known of it is still on its way."""

    @property
    def ended(self) -> bool:
        """It is known to be gone. A signal handler's record alone says that it was asked to go."""
        return any(one.source != "signal_handler" for one in self.exits) or bool(self.exits and self.silent)


class Text(msgspec.Struct, array_like=True):
    """A whole exception, with what decides whether it is worth keeping."""

    process: str
    reaction: bool
    fatal: bool
    time_ns: int
    exception: model.ExceptionInfo


class NumberFault(msgspec.Struct, array_like=True):
    """A detector's newest statement about one metric of one process."""

    process: str
    detector: str
    symptom: str
    metric: str
    time_ns: int
    received_ns: int
    step: int | None
    text: str
    opens: bool
    ended: bool
    id: str


class Episode(msgspec.Struct, omit_defaults=True):
    """One failure of one attempt; recurrences of a failure are episodes with one number."""

    attempt: int
    kind: EpisodeKind
    symptom: str = ""
    """For numbers: which one, a run may have several at once."""
    number: int = 0
    """The incident it belongs to; 0 until it is shown."""
    life: Life = "none"
    evidence_ns: int = 0
    """Receive time of the first evidence."""
    confirmed_ns: int = 0
    """When a hang was confirmed."""
    verdict: Verdict | None = None
    fingerprint: model.Fingerprint = msgspec.field(default_factory=model.Fingerprint)
    fault_step: int | None = None
    onset_ns: int = 0
    page: bool = False
    settled_ns: int = 0
    ended_ns: int = 0
    why: str = ""


class Issue(msgspec.Struct, omit_defaults=True):
    """An incident as last written."""

    number: int
    last: model.Incident
    steps: list[int] = []
    """Failed steps of its occurrences."""


class RunState(msgspec.Struct, omit_defaults=True):
    """One run."""

    tenant: str
    run: str
    name: str = ""
    owner: str = ""
    job_id: str = ""
    command: str = ""
    launcher: str = ""
    log_paths: list[str] = []
    world_size: int | None = None
    first_ns: int = 0
    last_ns: int = 0
    members: dict[str, Member] = {}
    attempt: int = 0
    dropped_attempts: int = 0
    """Attempts whose processes are no longer kept."""
    attempts_started_ns: list[int] = []
    pardons: list[tuple[int, int]] = []
    """Holes in receive time: end of the hole, by how much deadlines before it move."""
    texts: dict[str, Text] = {}
    facts: dict[str, NodeFact] = {}
    numbers: dict[str, NumberFault] = {}
    episodes: list[Episode] = []
    issues: dict[int, Issue] = {}
    dirty: bool = False
    unassigned: bool = False
    watch_ns: int = 0
    """Receive time before which nobody can fall silent or stall."""
    revision: int = 0
    status_ns: int = 0
    """Receive time of the last status written."""
    status_digest: str = ""
    moved: bool = False
    """Something changed since the last status."""
    gone: bool = False
    absent_told: int = 0
    """Attempt whose missing ranks were looked for after the init budget."""
