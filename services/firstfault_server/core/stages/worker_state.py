"""What the worker stage keeps of one process: bounded, and a function of what was sent, not of the order it arrived in."""

import msgspec

from firstfault_server.core import model
from firstfault_server.core.detect.nonfinite import NonfiniteState
from firstfault_server.core.detect.pause import PauseSketch
from firstfault_server.core.stages.ordered import Buffer, Queue
from firstfault_server.core.stages.phases import Phases
from firstfault_server.core.stages.sequences import Seen

DetectorState = NonfiniteState
"""Union of all detector states."""


class Collective(msgspec.Struct, array_like=True, order=True, frozen=True):
    """The newest collective record of a process."""

    time_ns: int = 0
    place: int = 0
    group: str = ""
    sequence: int | None = None
    state: str = ""


class WorkerState(msgspec.Struct, omit_defaults=True):
    """One process of one run."""

    identity: model.Identity | None = None
    seen: dict[str, Seen] = {}
    queues: dict[str, Queue] = {}
    buffer: Buffer = msgspec.field(default_factory=Buffer)
    foreign: dict[str, list[int]] = {}
    """Series -> timestamps of its points within the lateness bound, for senders without batch numbers."""
    foreign_logs: dict[str, int] = {}
    series: set[int] = set()
    """Series that are stored and no metric of the conventions (`breadth`)."""
    overfull: bool = False
    """Whether points of further series were dropped."""
    detectors: dict[str, DetectorState] = {}
    pause: PauseSketch = msgspec.field(default_factory=PauseSketch)
    phases: Phases = msgspec.field(default_factory=Phases)
    collective: Collective = msgspec.field(default_factory=Collective)
    step: int | None = None
    time_ns: int = 0
    progress_ns: int = 0
    received_ns: int = 0
    heartbeat_ns: int = 0
    checkpoint: tuple[int, int] | None = None
    """Event time and step of the newest checkpoint."""
    skew: tuple[int, int, int] | None = None
    """Minute of receive time, lowest receive − send in it, the same for the minute before."""
    presence_ns: int = 0
    ended: bool = False
    gone: bool = False
