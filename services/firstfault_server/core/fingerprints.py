"""What a list of fingerprints says about each."""

from collections.abc import Sequence
from typing import Any, Final

from firstfault.conventions import EXIT
from firstfault_server.core import model
from firstfault_server.core.search import And, Expression, Not, Term

LATEST: Final = 1000
"""Events of a fingerprint, from the latest back, whose runs and nodes are named."""
NAMED: Final = 10
"""Runs and nodes named."""


def of_errors(where: Expression) -> Expression:
    """The search without the ends of processes: what they hold of text was said before, by an exception or a line of its own."""
    return And(parts=(where, Not(part=Term(key="event", value=EXIT))))


def summary(latest: model.Event, count: int, first_ns: int, last_ns: int, places: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """One item: text of the latest event; runs and nodes out of (run, node) of events, latest first."""
    exception = latest.exception
    return {
        "fingerprint": latest.fingerprint,
        "symptom": latest.symptom,
        "type": "" if exception is None else exception.type,
        "message": latest.body if exception is None else exception.message,
        "count": count,
        "first_seen_ns": first_ns,
        "last_seen_ns": last_ns,
        "runs": list(dict.fromkeys(run for run, _ in places if run))[:NAMED],
        "nodes": list(dict.fromkeys(node for _, node in places if node))[:NAMED],
    }
