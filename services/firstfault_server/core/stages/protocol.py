"""The shape every keyed stage has, and where each record type goes next."""

from collections.abc import Sequence
from typing import Any, Final, Protocol, TypeVar

from firstfault_server.core import model

StateT = TypeVar("StateT")

FOREVER: Final = 1 << 62
"""Deadline of a state that is kept without a timer."""


class Stage(Protocol[StateT]):
    """A pure keyed stage. The host owns time, storage and delivery; a stage only changes the state object it is given."""

    name: str
    eager: bool
    """True: the host calls `on_batch` per record. False: at most once a second per key, plus at once for an urgent record."""

    def key(self, record: Any) -> str:
        """Key of the state that this record belongs to."""

    def new(self, key: str) -> StateT:
        """State of a key seen for the first time."""

    def urgent(self, record: Any) -> bool:
        """Whether the host should call at once (first such record per key and second)."""

    def on_batch(self, state: StateT, records: Sequence[Any], now_ns: int) -> list[model.AnyRecord]:
        """Take records into the state; `now_ns` is the receive time reached by the log."""

    def on_tick(self, state: StateT, now_ns: int) -> list[model.AnyRecord]:
        """Called when the log's clock reached `deadline(state)`."""

    def deadline(self, state: StateT) -> int | None:
        """Receive time of the next tick; None: the state may go; FOREVER or more: keep, no timer."""

    # A stage may also have `on_hole(state, hole_ns: int, now_ns: int) -> None`. The host calls it for every live state, before any
    # further record or tick, when receive time jumped by more than 5 s (the service was away): the stage moves what it measures
    # silences and hangs by. `hole_ns` is the whole jump, `now_ns` the receive time after it; timers are set anew afterwards.

    def encode(self, state: StateT) -> bytes:
        """State as versioned msgpack."""

    def decode(self, data: bytes) -> StateT:
        """State from `encode` of this or an earlier version: unknown fields ignored, missing ones defaulted."""


def destinations(record: model.AnyRecord, origin: str) -> tuple[str, ...]:
    """Where a record that stage `origin` made goes: stage names, or `#name` for an output of the core.

    Incidents leave through the fleet stage only, which adds group and history, so that each revision has one writer.
    """
    match record:
        case model.Rollup():  # by far the most
            return ("#rollups",)
        case model.Summary() | model.NodeFault():
            return ("run",)
        case model.Presence():
            return ("node",)
        case model.Event():
            if record.event_name.startswith("node."):
                return ("node", "#events")
            stored = record.severity >= 13 or record.event_name == "exception"
            return ("run", "#events") if stored else ("run",)
        case model.Finding():
            return ("run", "#findings")
        case model.Incident():
            return ("#incidents",) if origin == "fleet" else ("fleet",)
        case model.RunStatus():
            return ("#runs",)
        case model.DeadLetter():
            return ("#dead_letters",)
        case model.Dropped():
            return ("#dropped",)
        case model.Batch():
            return ("worker",)
