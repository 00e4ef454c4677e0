"""What one line or exception of a log says of its rank and its node: a fault, an end, a request to stop, a collective it waits in."""

import re
from typing import Final

from firstfault_server.core import model
from firstfault_server.core.cause.codes import CodeTables
from firstfault_server.core.cause.log_summary import Seen
from firstfault_server.core.cause.observation import Fault, FaultKind, NodeFact, RankObservation

DEATHS: Final = frozenset({"segfault", "killed", "exit-signal", "rank-signal", "task-killed", "task-crashed", "mpirun-signal"})
"""Patterns of lines that say by which signal a process died."""
NODE_PATTERNS: Final = {"xid": "xid", "sxid": "xid", "kernel-oom-kill": "oom_kill"}
"""Patterns of kernel lines, and the kind of fact about the node that each is."""
_SEQUENCE: Final = re.compile(r"SeqNum=(?P<sequence>\d{1,12})")
_GROUP: Final = re.compile(r"PG (?:ID|GUID) ?(?P<group>[\w:.-]{1,60})|process group (?:with )?(?P<named>[\w:.-]{1,60})")
_MISSING: Final = re.compile(
    r"(?i)(?:missing ranks?|ranks? (?:not responding|absent)|did not (?:join|respond)|stalled ranks?)"
    r"[: \[]{1,4}(?P<ranks>\d[\d, ]{0,2000})"
    r"|\branks? (?P<late>\d[\d, ]{0,2000}) failed to pass monitoredBarrier"
)
_TASK: Final = re.compile(r"/task:(\d{1,6})")


def add_line(observed: RankObservation, seen: Seen, ident: str, time_ns: int, *, stopped: bool) -> None:
    """Add what was seen to what is known of its rank; `ident` names it as evidence. `stopped`: a launcher had stopped the process."""
    fault = _fault_of(seen, ident, time_ns, stopped)
    observed.faults.append(fault)
    reading = seen.reading
    if fault.fatal and fault.kind != "log":
        observed.ended, observed.end = True, "failed"
    if reading.role == "teardown" and reading.symptom == "preempted":
        observed.stop_ns = min(observed.stop_ns or time_ns, time_ns)
    if reading.role == "waiting" and (number := _SEQUENCE.search(seen.text)) is not None:
        group = _GROUP.search(seen.text)
        observed.group = (group["group"] or group["named"]) if group is not None else "default"
        observed.sequence, observed.entered = int(number["sequence"]), True


def _fault_of(seen: Seen, ident: str, time_ns: int, stopped: bool) -> Fault:
    reading, crash = seen.reading, seen.crash
    role: model.Role = "cascade" if stopped else reading.role
    kind: FaultKind = "exception" if crash is not None else "signal" if reading.pattern in DEATHS and not stopped else "log"
    # A stack without the line that names its exception may be anything, also one that was caught.
    ignored = crash is not None and (crash.ignored or not crash.type)
    return Fault(
        id=ident,
        kind=kind,
        symptom=reading.symptom,
        role="unknown" if ignored else role,
        time_ns=time_ns,
        received_ns=time_ns,
        text=one_line(seen.text),
        source=ident,
        fatal=not ignored and (kind != "log" or role == "initiating"),
        weight=reading.weight,
        fingerprint=reading.fingerprint.id if crash is not None else "",
        stack_hash=reading.fingerprint.stack_hash,
        exception_type=crash.type if crash is not None else "",
        pattern=reading.pattern,
        missing=_missing(seen.text, reading.facts.get("missing", "")),
        place=seen.order,
        step=seen.step,
    )


def node_fact_of(seen: Seen, ident: str, time_ns: int, codes: CodeTables) -> NodeFact | None:
    """What a kernel line says of its node; None for any other line."""
    kind = NODE_PATTERNS.get(seen.reading.pattern)
    if kind is None:
        return None
    code = seen.reading.facts.get("xid")
    row = codes.lookup("xid", code) if code else None
    return NodeFact(
        id=ident,
        node=seen.node,
        kind=kind,
        symptom=seen.reading.symptom,
        initiates=row.own_fault if row is not None else True,
        time_ns=time_ns,
        received_ns=time_ns,
        text=one_line(seen.text),
        code=int(code) if code else None,
    )


def one_line(text: str) -> str:
    """The first lines of a text as one, at most 400 characters."""
    return " ".join(text[:600].split())[:400]


def _missing(text: str, listed: str = "") -> list[int]:
    """Ranks that a text says are absent."""
    if listed:
        return [int(listed)]
    text = text[:4000]
    if "Timed out task names" in text:
        return [int(number) for number in _TASK.findall(text)]
    found = _MISSING.search(text)
    return [int(number) for number in re.findall(r"\d{1,6}", found["ranks"] or found["late"])][:10_000] if found is not None else []
