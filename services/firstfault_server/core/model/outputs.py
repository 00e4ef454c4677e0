"""What the core writes besides incidents: rollups, dead letters, the state of runs."""

import msgspec

from firstfault_server.core.model.base import Record, RunState


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


class Dropped(Record, tag="dropped", kw_only=True):
    """Points of one batch that are not stored, for the host to count."""

    tenant: str
    run: str
    process: str
    reason: str
    points: int
    first: bool = False
    """Whether it is the first time with this process."""


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
    """Of the latest attempts only; the last is that of `attempt` (`core.attempts`)."""
    state: RunState = "running"
    state_reason: str = ""
    started_ns: int
    updated_ns: int
    ended_ns: int | None = None
    step: int | None = None
    ranks: list[RankStatus] = []
    incidents: list[str] = []
    notes: list[str] = []
