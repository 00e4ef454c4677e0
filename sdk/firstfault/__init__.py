"""Reports a training process to firstfault without ever getting in its way.

    import firstfault

    firstfault.init()
    with firstfault.phase("train"):
        for step in range(1000):
            firstfault.log({"loss": loss, "grad_norm": norm}, step=step)

No call raises, blocks on the network or asks an accelerator for a value. Settings come from the environment (FIRSTFAULT_*).
"""

from collections.abc import Mapping
from types import TracebackType
from typing import Any

from firstfault._lifecycle import Lifecycle as _Lifecycle

__all__ = ["capture_exception", "event", "flush", "init", "log", "phase", "shutdown"]

_current = _Lifecycle()


def init(
    run_id: str | None = None,
    run_name: str | None = None,
    endpoint: str | None = None,
    *,
    api_key: str | None = None,
    attributes: Mapping[str, Any] | None = None,
    sidecar: bool = True,
) -> None:
    """Start reporting this process. A second call, and any call under FIRSTFAULT_DISABLED=1, does nothing.

    `run_id` names the run; all ranks must give the same (default: FIRSTFAULT_RUN_ID, else what the scheduler or launcher says).
    `endpoint` is an OTLP/HTTP base URL (default: FIRSTFAULT_ENDPOINT, OTEL_EXPORTER_OTLP_ENDPOINT, http://127.0.0.1:4318).
    `attributes` are added to the OpenTelemetry resource. `sidecar` False: no watcher process, so death by a signal goes unseen.
    """
    _current.init(run_id, run_name, endpoint, api_key, attributes, sidecar)


def log(metrics: Mapping[str, Any], step: int | None = None) -> None:
    """Record numbers of one step: a dict of name -> number, NumPy scalar or CPU tensor of one element.

    Values are copied: later changes do not show. NaN and infinities are kept. Short names (`loss`, `grad_norm`, `lr`,
    `step_time` …) get the conventions' names, others stay. Tensors on an accelerator are left out and counted, since reading
    them would make the training wait.
    """
    _current.log(metrics, step)


class phase:
    """Context manager: what the process does now, so that a long pause in it is judged by its own measure.

    `name`: init, compile, train, evaluation, checkpoint, data, or any name. `expect_s`: longest time it should take, seconds.
    """

    def __init__(self, name: str, expect_s: float | None = None) -> None:
        self._name = str(name)
        self._expect_s = float(expect_s) if isinstance(expect_s, (int, float)) else None

    def __enter__(self) -> "phase":
        _current.phase_begins(self._name, self._expect_s)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        _current.phase_ends(self._name, error)


def event(name: str, attributes: Mapping[str, Any] | None = None) -> None:
    """Record that something happened; attribute values are texts, numbers or lists of them."""
    _current.event(name, attributes)


def capture_exception(error: BaseException | None = None) -> None:
    """Report an exception that the program handles; without an argument, the one being handled."""
    _current.captured(error)


def flush(timeout_s: float = 2.0) -> bool:
    """Wait until everything recorded so far was delivered; False when that took longer or failed."""
    return _current.flush(timeout_s)


def shutdown() -> None:
    """Deliver what is left, say that the process finished, and stop reporting; later calls do nothing."""
    _current.shutdown()
