"""What the core reads: one decoded request of one training process."""

import msgspec

from firstfault_server.core.model.base import Attribute, Record


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
