"""Incidents, runs and events as the JSON documents of the public contract: one schema for API, webhooks and `explain`.

Pure: the caller passes what depends on its place (the base address of links, the present time).
"""

import datetime
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

from firstfault_server.core import attempts, model

Document: TypeAlias = dict[str, Any]
MergedState: TypeAlias = Literal["open", "acknowledged", "resolved"]

STDERR_TAIL_LINES: Final = 200
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
_LATEST_US: Final = 253_402_300_799_999_999
"""9999-12-31T23:59:59.999999Z, the last time that RFC 3339 can write."""


def rfc3339(time_ns: int) -> str:
    """UTC with microseconds and `Z`; times outside of what RFC 3339 can write are clamped."""
    microseconds = min(max(time_ns // 1000, 0), _LATEST_US)
    return (_EPOCH + datetime.timedelta(microseconds=microseconds)).isoformat(timespec="microseconds").replace("+00:00", "Z")


def optional_time(time_ns: int | None) -> str | None:
    """RFC 3339, or None for a time that is not known (None or 0)."""
    return rfc3339(time_ns) if time_ns else None


def number(value: float | None) -> float | str | None:
    """JSON has no NaN and no infinities: they become the strings NaN, Infinity, -Infinity, as in OTLP/JSON."""
    if value is None or math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def merged_state(incident: model.Incident, triage: model.Triage) -> MergedState:
    """What detection and people say together.

    A person's resolve holds until the incident recurs or a person reopens it; a person's reopening overrides a resolve by
    detection until detection resolves it again later.
    """
    resolved_ns = incident.resolved_at if incident.state == "resolved" else None
    reopened_ns = triage.reopened_at_ns
    if incident.state == "resolved" and (reopened_ns is None or (resolved_ns or 0) > reopened_ns):
        return "resolved"
    if triage.resolved_at_ns is not None and not _recurred_since(incident, triage.resolved_at_ns):
        return "resolved"
    if triage.ack_at_ns is not None and not _recurred_since(incident, triage.ack_at_ns):
        return "acknowledged"
    return "open"


def _recurred_since(incident: model.Incident, mark_ns: int) -> bool:
    first_time = incident.first_fault.time
    return incident.recurrences > 0 and first_time is not None and first_time > mark_ns


def resolved_since(incident: model.Incident, triage: model.Triage) -> int | None:
    """When it was resolved, in nanoseconds; None while it is not, 0 when nobody knows."""
    if merged_state(incident, triage) != "resolved":
        return None
    return (incident.resolved_at if incident.state == "resolved" else triage.resolved_at_ns) or 0


def is_muted(triage: model.Triage, now_ns: int) -> bool:
    """Whether people asked to hear nothing about it now."""
    return triage.muted_until_ns is not None and triage.muted_until_ns > now_ns


def incident_document(
    incident: model.Incident, triage: model.Triage | None = None, base_url: str = "", silences: Sequence[model.Silence] = ()
) -> Document:
    """INCIDENT of the contract. `base_url` has no trailing slash; empty: no link. `silences` are those that keep it quiet now."""
    marks = triage or model.Triage(tenant=incident.tenant, incident=incident.id)
    state = merged_state(incident, marks)
    return {
        "id": incident.id,
        "revision": incident.revision,
        "state": state,
        "severity": incident.severity,
        "page": incident.page,
        "title": incident.title,
        "url": f"{base_url}/v1/incidents/{incident.id}" if base_url else "",
        "tenant": incident.tenant,
        "run": _run_reference(incident.run),
        "symptom": incident.symptom,
        "family": incident.family,
        "layer": incident.layer,
        "seen": incident.seen,
        "time_pattern": incident.time_pattern,
        "cause": {
            "domain": incident.cause.domain,
            "confidence": incident.cause.confidence,
            "domains": {name: incident.cause.domains.get(name, 0.0) for name in ("workload", "infrastructure", "data", "unknown")},
        },
        "first_fault": first_fault_document(incident.first_fault),
        "ranks": [{"rank": rank.rank, "role": rank.role, "why": rank.why} for rank in incident.ranks],
        "evidence": [evidence_document(item) for item in incident.evidence],
        "not_seen": list(incident.not_seen),
        "fingerprint": {
            "version": incident.fingerprint.version,
            "id": incident.fingerprint.id,
            "stack_hash": incident.fingerprint.stack_hash,
        },
        "history": {
            "first_seen": optional_time(incident.history.first_seen),
            "count_24h": incident.history.count_24h,
            "count_7d": incident.history.count_7d,
            "runs": list(incident.history.runs),
            "same_node": incident.history.same_node,
            "group": incident.history.group,
            "why": incident.history.why,
        },
        "impact": {
            "gpus": incident.impact.gpus,
            "idle_s": number(incident.impact.idle_s),
            "gpu_hours_lost": number(incident.impact.gpu_hours_lost),
            "last_checkpoint_step": incident.impact.last_checkpoint_step,
            "steps_lost": incident.impact.steps_lost,
        },
        "advice": [{"text": advice.text, "because": advice.because} for advice in incident.advice],
        "recurrences": incident.recurrences,
        "attempts": list(incident.attempts),
        "opened_at": optional_time(incident.opened_at),
        "updated_at": optional_time(incident.updated_at),
        "resolved_at": optional_time(resolved_since(incident, marks)),
        "resolved_why": incident.resolved_why or (f"by {marks.resolved_by}" if state == "resolved" and marks.resolved_by else ""),
        "silences": [{"id": one.id, "ends_at": rfc3339(one.ends_ns), "author": one.author, "comment": one.comment} for one in silences],
        "triage": triage_document(marks),
    }


def first_fault_document(fault: model.FirstFault) -> Document:
    """`first_fault` of an INCIDENT."""
    return {
        "status": fault.status,
        "rank": fault.rank,
        "scope": fault.scope,
        "candidates": list(fault.candidates),
        "local_rank": fault.local_rank,
        "node": fault.node,
        "gpu_uuid": fault.gpu_uuid,
        "pid": fault.pid,
        "process": fault.process,
        "phase": fault.phase,
        "step": fault.step,
        "time": optional_time(fault.time),
        "exception": exception_document(fault.exception),
        "trace_id": fault.trace_id,
        "stderr_tail": list(fault.stderr_tail[-STDERR_TAIL_LINES:]),
    }


def exception_document(exception: model.ExceptionInfo | None) -> Document | None:
    """`{type, message, stacktrace}` or None."""
    if exception is None:
        return None
    return {"type": exception.type, "message": exception.message, "stacktrace": exception.stacktrace}


def evidence_document(item: model.Evidence) -> Document:
    """One entry of `evidence`."""
    return {
        "id": item.id,
        "kind": item.kind,
        "rank": item.rank,
        "node": item.node,
        "time": optional_time(item.time),
        "text": item.text,
        "source": item.source,
        "role": item.role,
    }


def triage_document(triage: model.Triage) -> Document:
    """People's marks, with the version that `If-Match` names."""
    return {
        "version": triage.version,
        "ack_by": triage.ack_by,
        "ack_at": optional_time(triage.ack_at_ns),
        "assignee": triage.assignee,
        "muted_until": optional_time(triage.muted_until_ns),
        "resolved_by": triage.resolved_by,
        "notes": [note_document(note) for note in triage.notes],
    }


def note_document(note: model.Note) -> Document:
    """One note."""
    return {"id": note.id, "author": note.author, "time": rfc3339(note.time_ns), "text": note.text}


def _run_reference(run: model.RunRef) -> Document:
    return {
        "id": run.id,
        "attempt": run.attempt,
        "name": run.name,
        "owner": run.owner,
        "job_id": run.job_id,
        "command": run.command,
        "log_paths": list(run.log_paths),
        "world_size": run.world_size,
        "nodes": list(run.nodes),
    }


def run_document(run: model.RunStatus, with_ranks: bool = False) -> Document:
    """One item of `/v1/runs`; `with_ranks` adds the table of `/v1/runs/{id}/ranks`."""
    document: Document = {
        "id": run.run,
        "tenant": run.tenant,
        "name": run.name,
        "owner": run.owner,
        "job_id": run.job_id,
        "command": run.command,
        "launcher": run.launcher,
        "log_paths": list(run.log_paths),
        "world_size": run.world_size,
        "nodes": list(run.nodes),
        "attempt": run.attempt,
        "attempts": [{"attempt": n, "started_at": rfc3339(ns)} for n, ns in attempts.starts(run)],
        "state": run.state,
        "state_reason": run.state_reason,
        "started_at": rfc3339(run.started_ns),
        "updated_at": rfc3339(run.updated_ns),
        "ended_at": optional_time(run.ended_ns),
        "step": run.step,
        "incidents": list(run.incidents),
        "notes": list(run.notes),
    }
    if with_ranks:
        document["ranks"] = [rank_document(rank) for rank in run.ranks]
    return document


def rank_document(rank: model.RankStatus) -> Document:
    """One rank of a run."""
    return {
        "rank": rank.rank,
        "process": rank.process,
        "node": rank.node,
        "local_rank": rank.local_rank,
        "pid": rank.pid,
        "gpu_uuid": rank.gpu_uuid,
        "state": rank.state,
        "state_reason": rank.state_reason,
        "step": rank.step,
        "phase": rank.phase,
        "last_seen": optional_time(rank.last_seen_ns),
    }


def event_document(event: model.Event) -> Document:
    """EVENT of the contract."""
    return {
        "id": event.id,
        "time": rfc3339(event.time_ns),
        "received": rfc3339(event.received_ns),
        "run": event.identity.run,
        "attempt": event.attempt,
        "rank": event.identity.rank,
        "node": event.identity.node,
        "process": event.identity.process,
        "event_name": event.event_name,
        "severity": event.severity,
        "body": event.body,
        "exception": exception_document(event.exception),
        "fingerprint": event.fingerprint,
        "symptom": event.symptom,
        "step": event.step,
        "phase": event.phase,
        "trace_id": event.trace_id,
        "span_id": event.span_id,
        "attributes": attributes_document(event.attributes),
    }


def attributes_document(attributes: Mapping[str, model.Attribute]) -> Document:
    """Attributes with numbers that JSON can write."""
    return {key: _attribute(value) for key, value in attributes.items()}


def _attribute(value: model.Attribute | Sequence[model.Scalar]) -> Any:
    if isinstance(value, list):
        return [_attribute(item) for item in value]
    if isinstance(value, float):
        return number(value)
    return value
