"""Runs, ranks, nodes and numbers."""

from datetime import datetime
from typing import Literal

from firstfault_server.api.schemas.base import Cursor, Number, Shape

RunStateName = Literal["running", "finished", "failed", "killed", "preempted", "cancelled", "time_limit", "unreachable"]


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
    """Ranks of a run; `partial` when figures were asked for and cannot be read now."""

    items: list[RankWithFigures]
    next_cursor: Cursor
    partial: bool


class MetricNames(Shape):
    """Names of metrics of a run."""

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
