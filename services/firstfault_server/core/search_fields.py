"""What a search can ask of each kind of thing: the keys, their types, and the words and values a record offers.

One place says what `rank:3` means for an incident, so that every store gives the same answer. Values are compared verbatim.
"""

from collections.abc import Iterable
from typing import Literal, TypeAlias

import msgspec

from firstfault_server.core import attempts, model
from firstfault_server.core.documents import merged_state

FieldType: TypeAlias = Literal["text", "number", "flag"]


class Field(msgspec.Struct, frozen=True, kw_only=True):
    """One key: how its values compare, and what may stand for them."""

    type: FieldType = "text"
    values: frozenset[str] = frozenset()
    """The values a flag may have; empty for the other types."""
    names: dict[str, tuple[int, int]] = {}
    """Words that stand for a range of numbers, both ends included."""


class Document(msgspec.Struct, kw_only=True):
    """What a search sees of a record."""

    values: dict[str, tuple[str | int, ...]] = {}
    """By key; several values mean that any of them may match."""
    texts: tuple[str, ...] = ()
    """Free text, a phrase lies within one of them."""


Fields: TypeAlias = dict[str, Field]

_TEXT = Field()
_NUMBER = Field(type="number")


def _flag(*values: str) -> Field:
    return Field(type="flag", values=frozenset(values))


# OpenTelemetry logs data model, ranges of severity numbers.
EVENT_SEVERITIES = {"info": (9, 12), "warning": (13, 16), "error": (17, 20), "critical": (21, 24), "fatal": (21, 24)}
INCIDENT_SEVERITIES = {"info": (1, 1), "warning": (2, 2), "error": (3, 3), "critical": (4, 4)}

INCIDENT: Fields = {
    "is": _flag("open", "acknowledged", "resolved", "muted", "page", "settled", "provisional"),
    "has": _flag("rank", "node", "exception", "owner", "fingerprint", "trace", "step", "assignee", "notes", "recurrences"),
    "id": _TEXT,
    "run": _TEXT,
    "name": _TEXT,
    "owner": _TEXT,
    "node": _TEXT,
    "rank": _NUMBER,
    "attempt": _NUMBER,
    "symptom": _TEXT,
    "family": _TEXT,
    "layer": _TEXT,
    "domain": _TEXT,
    "severity": Field(type="number", names=INCIDENT_SEVERITIES),
    "fingerprint": _TEXT,
    "group": _TEXT,
    "assignee": _TEXT,
}
EVENT: Fields = {
    "has": _flag("rank", "node", "exception", "fingerprint", "trace", "step", "symptom"),
    "run": _TEXT,
    "rank": _NUMBER,
    "node": _TEXT,
    "process": _TEXT,
    "event": _TEXT,
    "severity": Field(type="number", names=EVENT_SEVERITIES),
    "fingerprint": _TEXT,
    "symptom": _TEXT,
    "attempt": _NUMBER,
    "trace": _TEXT,
    "owner": _TEXT,
}
RUN: Fields = {
    "has": _flag("owner", "incidents"),
    "run": _TEXT,
    "name": _TEXT,
    "owner": _TEXT,
    "node": _TEXT,
    "state": _TEXT,
    "attempt": _NUMBER,
}
DELIVERY: Fields = {
    "destination": _TEXT,
    "incident": _TEXT,
    "message": _TEXT,
    "kind": _TEXT,
    "delivered": Field(type="flag", values=frozenset({"true", "false"})),
}
SILENCE: Fields = {"is": _flag("pending", "active", "ended"), "author": _TEXT}
AUDIT: Fields = {"actor": _TEXT, "action": _TEXT, "subject": _TEXT}


def incident_document(incident: model.Incident, triage: model.Triage) -> Document:
    """An incident with people's marks. Whether it is muted depends on the present time and is left to the caller."""
    fault = incident.first_fault
    nodes = _some([fault.node or "", *(evidence.node for evidence in incident.evidence)])
    ranks = [fault.rank, *fault.candidates, *(role.rank for role in incident.ranks if role.role == "initiating")]
    exception = fault.exception
    has = {
        "rank": fault.rank is not None,
        "node": bool(nodes),
        "exception": exception is not None,
        "owner": bool(incident.run.owner),
        "fingerprint": bool(incident.fingerprint.id),
        "trace": bool(fault.trace_id),
        "step": fault.step is not None,
        "recurrences": incident.recurrences > 0,
        "assignee": bool(triage.assignee),
        "notes": bool(triage.notes),
    }
    values: dict[str, tuple[str | int, ...]] = {
        "is": (merged_state(incident, triage), fault.status, *(("page",) if incident.page else ())),
        "has": tuple(name for name, there in has.items() if there),
        "id": (incident.id,),
        "run": (incident.run.id,),
        "name": _some([incident.run.name]),
        "owner": _some([incident.run.owner]),
        "node": nodes,
        "rank": tuple(dict.fromkeys(rank for rank in ranks if rank is not None)),
        "attempt": tuple(dict.fromkeys([incident.run.attempt, *incident.attempts])),
        "symptom": (incident.symptom,),
        "family": (incident.family,),
        "layer": (incident.layer,),
        "domain": (incident.cause.domain,),
        "severity": (INCIDENT_SEVERITIES[incident.severity][0],),
        "fingerprint": _some([incident.fingerprint.id, incident.fingerprint.stack_hash]),
        "group": _some([incident.history.group]),
        "assignee": _some([triage.assignee or ""]),
    }
    texts = [incident.title, incident.symptom, incident.run.id, incident.run.name, incident.run.owner]
    if exception is not None:
        texts += [exception.type, exception.message, exception.stacktrace]
    texts += [*(evidence.text for evidence in incident.evidence), "\n".join(fault.stderr_tail)]
    return Document(values=values, texts=tuple(text for text in texts if text))


def event_document(event: model.Event, attempt: int | None) -> Document:
    """An event; `attempt` is the one its run was in at the time, None when not known."""
    identity, exception = event.identity, event.exception
    has = {
        "rank": identity.rank is not None,
        "node": bool(identity.node),
        "exception": exception is not None,
        "fingerprint": bool(event.fingerprint),
        "trace": bool(event.trace_id),
        "step": event.step is not None,
        "symptom": bool(event.symptom),
    }
    values: dict[str, tuple[str | int, ...]] = {
        "has": tuple(name for name, there in has.items() if there),
        "run": (identity.run,),
        "rank": () if identity.rank is None else (identity.rank,),
        "node": _some([identity.node]),
        "process": (identity.process,),
        "event": (event.event_name,),
        "severity": (event.severity,),
        "fingerprint": _some([event.fingerprint]),
        "symptom": _some([event.symptom]),
        "attempt": () if attempt is None else (attempt,),
        "trace": _some([event.trace_id]),
        "owner": _some([identity.owner]),
    }
    return Document(values=values, texts=event_texts(event))


def event_texts(event: model.Event) -> tuple[str, str]:
    """(body, exception) as they are searched; type, message and stack trace are one text."""
    exception = event.exception
    return event.body, "" if exception is None else f"{exception.type}\n{exception.message}\n{exception.stacktrace}"


def run_document(run: model.RunStatus) -> Document:
    """A run."""
    has = {"owner": bool(run.owner), "incidents": bool(run.incidents)}
    return Document(
        values={
            "has": tuple(name for name, there in has.items() if there),
            "run": (run.run,),
            "name": _some([run.name]),
            "owner": _some([run.owner]),
            "node": _some(run.nodes),
            "state": (run.state,),
            "attempt": (run.attempt,),
        },
        texts=tuple(text for text in (run.run, run.name, run.owner, run.job_id, run.command, " ".join(run.nodes)) if text),
    )


def attempt_at(run: model.RunStatus | None, time_ns: int) -> int | None:
    """Attempt a run was in at an event time, the first one listed for what is earlier; None when the run is not known."""
    if run is None:
        return None
    listed = attempts.starts(run)
    if not listed:
        return run.attempt
    return max((number for number, started in listed if started <= time_ns), default=listed[0][0])


def _some(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(value for value in values if value))
