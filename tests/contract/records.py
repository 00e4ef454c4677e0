"""Records that contract suites write: plausible, and changed where a test needs it."""

from typing import Any

from firstfault_server.core import model
from firstfault_server.ports import Audit, Delivery, Message

NOW_NS = 1_790_000_000_000_000_000
"""The time at which contract tests take place."""
SECOND_NS = model.SECOND_NS
DAY_NS = 86_400 * SECOND_NS


class FixedClock:
    """A clock that stands until it is moved."""

    def __init__(self, now_ns: int = NOW_NS) -> None:
        self.time_ns = now_ns

    def now_ns(self) -> int:
        return self.time_ns


def identity(**changes: Any) -> model.Identity:
    """Process p-0 of rank 0 of run r-1 of tenant acme."""
    fields: dict[str, Any] = {"tenant": "acme", "process": "p-0", "run": "r-1", "rank": 0, "node": "n-01", "owner": "ada"}
    return model.Identity(**fields | changes)


def event(number: int, **changes: Any) -> model.Event:
    """The n-th event, a second after the one before; keys of `Identity` in `changes` go there."""
    who = {key: changes.pop(key) for key in list(changes) if key in model.Identity.__struct_fields__}
    fields: dict[str, Any] = {
        "id": f"e-{number:04}",
        "identity": identity(**who),
        "time_ns": NOW_NS + number * SECOND_NS,
        "received_ns": NOW_NS + number * SECOND_NS,
        "event_name": "exception",
        "severity": 17,
        "body": f"event number {number}",
    }
    return model.Event(**fields | changes)


def incident(number: int, **changes: Any) -> model.Incident:
    """The n-th incident, opened a second after the one before."""
    fields: dict[str, Any] = {
        "id": f"i-{number:04}",
        "revision": 1,
        "tenant": "acme",
        "run": model.RunRef(id="r-1", name="pretrain", owner="ada"),
        "title": f"Failure number {number}",
        "symptom": "cuda_oom",
        "opened_at": NOW_NS + number * SECOND_NS,
        "updated_at": NOW_NS + number * SECOND_NS,
    }
    return model.Incident(**fields | changes)


def run(number: int, **changes: Any) -> model.RunStatus:
    """The n-th run, updated a second after the one before."""
    fields: dict[str, Any] = {
        "tenant": "acme",
        "run": f"r-{number}",
        "revision": 1,
        "name": "pretrain",
        "owner": "ada",
        "nodes": ["n-01", "n-02"],
        "started_ns": NOW_NS,
        "updated_ns": NOW_NS + number * SECOND_NS,
    }
    return model.RunStatus(**fields | changes)


def audit(number: int, **changes: Any) -> Audit:
    """The n-th audit entry."""
    fields: dict[str, Any] = {
        "id": f"a-{number:04}",
        "tenant": "acme",
        "time_ns": NOW_NS + number * SECOND_NS,
        "actor": "ada",
        "action": "ack",
        "subject": "i-0001",
    }
    return Audit(**fields | changes)


def message(number: int, **changes: Any) -> Message:
    """The n-th message about incident i-0001 to destination d-1, due at once."""
    fields: dict[str, Any] = {
        "id": f"i-0001.d-1.{number}",
        "tenant": "acme",
        "destination": "d-1",
        "incident": "i-0001",
        "number": number,
        "kind": "opened" if number == 1 else "corrected",
        "revision": number,
        "body": b"{}",
        "created_ns": NOW_NS,
        "next_try_ns": NOW_NS,
    }
    return Message(**fields | changes)


def delivery(number: int, of: Message, **changes: Any) -> Delivery:
    """The n-th try of a message."""
    fields: dict[str, Any] = {
        "id": f"{of.id}.{number}",
        "tenant": of.tenant,
        "message": of.id,
        "destination": of.destination,
        "incident": of.incident,
        "kind": of.kind,
        "attempt": number,
        "time_ns": NOW_NS + number * SECOND_NS,
        "duration_s": 0.1,
    }
    return Delivery(**fields | changes)


def rollup(window: int, **changes: Any) -> model.Rollup:
    """A delta of one point, value 1.0, in the n-th window of train.loss of rank 0."""
    start = NOW_NS + window * 10 * SECOND_NS
    fields: dict[str, Any] = {
        "tenant": "acme",
        "run": "r-1",
        "process": "p-0",
        "rank": 0,
        "metric": "train.loss",
        "window_ns": start,
        "position": f"{window:08}",
        "count": 1,
        "sum": 1.0,
        "sumsq": 1.0,
        "min": 1.0,
        "max": 1.0,
        "first": 1.0,
        "first_ns": start,
        "last": 1.0,
        "last_ns": start,
        "step_min": window,
        "step_max": window,
    }
    return model.Rollup(**fields | changes)
