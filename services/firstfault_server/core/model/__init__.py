"""Records that pass between stages, stores and the API: pure data, no behaviour.

Times are integer nanoseconds since the Unix epoch. `received_ns` is the receive time stamped by ingest: the only clock
for silence. `time_ns` is the sender's time. A record never refers to another by object, only by id.
"""

from typing import TypeAlias

from firstfault_server.core.model.base import SECOND_NS, Attribute, Record, Role, RunState, Scalar, Scope, Severity, plain
from firstfault_server.core.model.flow import Event, ExceptionInfo, Finding, NodeFault, Presence, Summary
from firstfault_server.core.model.incident import (
    Advice,
    Cause,
    Evidence,
    Fingerprint,
    FirstFault,
    History,
    Impact,
    Incident,
    Note,
    RankRole,
    RunRef,
    Silence,
    Symptom,
    Taxonomy,
    Triage,
)
from firstfault_server.core.model.inputs import Batch, Identity, LogRecord, Series
from firstfault_server.core.model.outputs import DeadLetter, Dropped, RankStatus, Rollup, RunStatus

AnyRecord: TypeAlias = Batch | Summary | Presence | Event | Finding | NodeFault | Rollup | DeadLetter | Dropped | RunStatus | Incident

__all__ = [
    "SECOND_NS",
    "Advice",
    "AnyRecord",
    "Attribute",
    "Batch",
    "Cause",
    "DeadLetter",
    "Dropped",
    "Event",
    "Evidence",
    "ExceptionInfo",
    "Finding",
    "Fingerprint",
    "FirstFault",
    "History",
    "Identity",
    "Impact",
    "Incident",
    "LogRecord",
    "NodeFault",
    "Note",
    "Presence",
    "RankRole",
    "RankStatus",
    "Record",
    "Role",
    "Rollup",
    "RunRef",
    "RunState",
    "RunStatus",
    "Scalar",
    "Scope",
    "Series",
    "Severity",
    "Silence",
    "Summary",
    "Symptom",
    "Taxonomy",
    "Triage",
    "plain",
]
