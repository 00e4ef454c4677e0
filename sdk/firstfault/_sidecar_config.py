"""What a training process tells its sidecar when it starts it; plain data that survives a trip as JSON."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

AttributeValue = str | bool | int | float | list[str] | list[int]


@dataclass(frozen=True, kw_only=True)
class SidecarConfig:
    """Everything the sidecar needs; it reads no environment of its own.

    The JSON holds the API key: hand it over through a pipe or a private file, never in a command line.
    """

    pid: int
    """Process to watch."""
    resource: Mapping[str, AttributeValue] = field(default_factory=dict)
    """OpenTelemetry resource attributes of that process (names in `conventions`); the sidecar sends them as they are."""
    endpoint: str = "http://127.0.0.1:4318"
    """OTLP/HTTP base URL, without `/v1/logs`."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """HTTP headers of every request, `authorization` among them when there is an API key."""
    beacon_path: str = ""
    """Opens the page of `_beacon`: a file, or /proc/PID/fd/N of a memory file. Open it at start: it goes with the process."""
    beacon_fd: int = -1
    """The same page as a descriptor of the training process, for a child that inherits it; -1 when there is none."""
    heartbeat_interval_s: float = 2.0
    spool_dir: str = ""
    """Where `_spool` keeps what could not be delivered; empty: nowhere."""
    linger_s: float = 600.0
    """For so long after the process has ended what is in the spool is tried again; longer than a service is usually away."""
    capture_stderr: bool = False
    """The user allowed to put a pipe behind stderr (`firstfault run --capture-stderr`)."""

    def to_json(self) -> str:
        """One line of JSON."""
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> "SidecarConfig":
        """Raises ValueError or TypeError for text that `to_json` did not write. Unknown fields are ignored."""
        raw = json.loads(text)
        if not isinstance(raw, dict):
            raise ValueError("a sidecar configuration is a JSON object")
        known = SidecarConfig.__dataclass_fields__
        return SidecarConfig(**{name: value for name, value in raw.items() if name in known})
