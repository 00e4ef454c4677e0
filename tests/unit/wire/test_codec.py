"""Records as protobuf: nothing lost on the way, messages and model never drift apart."""

import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from firstfault_server.core import model
from firstfault_server.wire.codec import MESSAGES, decode, encode
from firstfault_server.wire.pb import records_pb2 as pb
from firstfault_server.wire.unreadable import Unreadable

WHO = model.Identity(tenant="t", process="p", run="r", rank=0, log_paths=("/a", "/b"), command="python x")
SPARSE: list[msgspec.Struct] = [
    model.Rollup(tenant="t", run="r", process="p", metric="m", window_ns=0, position="1", count=0),
    model.Event(id="e", identity=WHO, time_ns=1, received_ns=2, event_name="exception"),
    model.Finding(id="f", identity=WHO, detector="d", symptom="s", time_ns=1, received_ns=2),
    model.Incident(id="i", revision=1, tenant="t", run=model.RunRef(id="r"), symptom="s", opened_at=1, updated_at=2),
    model.DeadLetter(id="x", tenant="t", received_ns=1, reason="why"),
    model.RunStatus(tenant="t", run="r", revision=1, started_ns=1, updated_ns=2),
]
FULL: list[msgspec.Struct] = [
    model.Rollup(
        tenant="t",
        run="r",
        process="p",
        rank=0,
        metric="m",
        window_ns=10,
        position="1",
        count=3,
        sum=1.5,
        min=-0.5,
        max=math.inf,
        step_min=0,
    ),
    model.Event(
        id="e",
        identity=WHO,
        time_ns=1,
        received_ns=2,
        event_name="exception",
        exception=model.ExceptionInfo(type="E"),
        step=0,
        text_domains={"data": 0.5},
        attributes={"s": "", "i": -5, "f": 0.0, "b": False, "l": ["a", 1, 2.5, True], "empty": []},
    ),
    model.Finding(id="f", identity=WHO, detector="d", symptom="s", time_ns=1, received_ns=2, score=0.0, numbers={"z": 0.0}, opens=False),
    model.Incident(
        id="i",
        revision=7,
        tenant="t",
        run=model.RunRef(id="r", attempt=2, nodes=["n"]),
        symptom="s",
        page=True,
        cause=model.Cause(domain="data", confidence=0.5, domains={"data": 0.5, "unknown": 0.5}),
        first_fault=model.FirstFault(
            status="settled", rank=0, candidates=[0, 1], exception=model.ExceptionInfo(type="E"), stderr_tail=["x"]
        ),
        ranks=[model.RankRole(rank=None, role="waiting"), model.RankRole(rank=0, role="initiating", why="spoke")],
        evidence=[model.Evidence(id="e", kind="log", text="t", rank=0)],
        impact=model.Impact(gpus=0),
        advice=[model.Advice(text="a", because="b")],
        attempts=[1, 2],
        opened_at=1,
        updated_at=2,
        resolved_at=0,
    ),
    model.DeadLetter(id="x", tenant="t", received_ns=1, reason="why", data=b"\x00\xff"),
    model.RunStatus(
        tenant="t",
        run="r",
        revision=3,
        attempts_started_ns=[1, 2],
        state="failed",
        started_ns=1,
        updated_ns=2,
        ended_ns=0,
        step=0,
        ranks=[model.RankStatus(rank=0, process="p", state="killed", step=0), model.RankStatus(rank=None)],
        incidents=["i"],
        notes=["n"],
    ),
]


@pytest.mark.parametrize("record", SPARSE + FULL, ids=lambda record: type(record).__name__)
def test_a_record_comes_back_as_it_was(record: Any) -> None:
    assert decode(type(record), encode(record)) == record


def test_nan_survives() -> None:
    row = model.Rollup(tenant="t", run="r", process="p", metric="m", window_ns=0, position="1", count=1, sum=math.nan)
    assert math.isnan(decode(model.Rollup, encode(row)).sum)


def structs(kind: type[msgspec.Struct], message: Any) -> list[tuple[str, set[str], set[str]]]:
    """Field names of a struct and its message, and of all that they hold."""
    fields = {f.name: f for f in msgspec.structs.fields(kind)}
    found = [(kind.__name__, set(fields), set(message.fields_by_name))]
    for field in message.fields:
        held = field.message_type
        if held is not None and not held.GetOptions().map_entry:
            inner = getattr(model, held.name)
            found += structs(inner, held)
    return found


@pytest.mark.parametrize("kind", MESSAGES, ids=lambda kind: kind.__name__)
def test_messages_have_the_fields_of_the_model(kind: type[msgspec.Struct]) -> None:
    for name, of_model, of_message in structs(kind, MESSAGES[kind].DESCRIPTOR):
        assert of_model == of_message, name


def test_unknown_fields_are_passed_over() -> None:
    data = encode(SPARSE[4]) + b"\xfa\x07\x05later"
    assert decode(model.DeadLetter, data) == SPARSE[4]


@pytest.mark.parametrize("data", [b"\xff", pb.Incident(id="i", state="asleep").SerializeToString()])
def test_what_is_no_such_record_says_so(data: bytes) -> None:
    with pytest.raises(Unreadable, match="not a Incident"):
        decode(model.Incident, data)


def test_the_generated_code_is_up_to_date() -> None:
    script = Path(__file__).parents[3] / "proto" / "compile.py"
    done = subprocess.run([sys.executable, str(script), "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
