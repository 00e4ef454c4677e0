"""What a training process hands to its sidecar at the start, beside what the rest of the SDK knows."""

import json
from dataclasses import asdict, dataclass, field

from firstfault._sidecar_config import SidecarConfig


@dataclass(frozen=True, kw_only=True)
class StderrSource:
    """What is behind descriptor 2 of the training process."""

    status: str
    """Value of `conventions.STDERR_STATUS`."""
    path: str = ""
    fd: int = -1
    """Descriptor open for reading; -1 when there is nothing to read."""
    offset: int = 0
    """Size of the file when the sidecar was started: what came before belongs to somebody else."""


@dataclass(frozen=True, kw_only=True)
class Handover:
    """All that the sidecar gets; plain data that survives a trip as JSON."""

    config: SidecarConfig
    stderr: StderrSource
    secrets: list[str] = field(default_factory=list)
    """Values that never leave the machine, whatever surrounds them."""
    launch_dir: str = ""
    """Folder in which `firstfault run` leaves the status of its child (see `launch`); empty without it."""
    end_time_s: float | None = None
    """When the scheduler will end the job, seconds since the epoch, where it says so."""
    debug_log: str = ""
    """File for the sidecar's own errors; for people who look into the sidecar itself."""

    def to_json(self) -> str:
        """One line of JSON."""
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> "Handover":
        """Raises ValueError, TypeError or KeyError for text that `to_json` did not write."""
        raw = json.loads(text)
        config = SidecarConfig.from_json(json.dumps(raw.pop("config")))
        return Handover(config=config, stderr=StderrSource(**raw.pop("stderr")), **raw)
