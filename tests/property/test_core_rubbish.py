"""Records that make no sense harm nobody: no stage fails, states stay encodable, a neighbour's failure is still found."""

from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from firstfault import conventions as names
from firstfault_server.core import model
from firstfault_server.tables import Tables, load_tables
from tests.property import faults
from tests.property.scripts import Driver, Script, at
from tests.property.test_core_order import CASE_COUNT

NAMES = sorted({value for key, value in vars(names).items() if key.isupper() and isinstance(value, str)})
TIMES = st.sampled_from([0, -5, at(1), at(20), at(99_999), 2**63 - 1])
ATTRIBUTES: st.SearchStrategy[Any] = st.one_of(
    st.sampled_from(["", "x" * 5000, "\x1b[31mred", "9" * 19, "-9223372036854775809", "nan", "1e400", "[1,", '[{"module":1}]', "end"]),
    st.sampled_from([0, -1, 2**63 - 1, -(2**63), 1.5, 1e25, float("nan"), float("inf"), True]),
    st.lists(st.sampled_from([1, "a", -1.0, True]), max_size=3),
)
EVENTS = [names.EXCEPTION, names.EXIT, names.PHASE, names.HEARTBEAT, names.CHECKPOINT, names.COLLECTIVE, names.LOG]
EVENTS += [names.XID, names.OOM_KILL, names.KERNEL, "", "other"]
LOGS = st.builds(
    model.LogRecord,
    time_ns=TIMES,
    event_name=st.sampled_from(EVENTS),
    severity=st.sampled_from([0, 9, 17, 21, 99]),
    body=st.sampled_from(["", "CUDA error: out of memory", "\x00", "x" * 9000]),
    attributes=st.dictionaries(st.sampled_from(NAMES), ATTRIBUTES, max_size=6),
)


@st.composite
def series(draw: st.DrawFn) -> model.Series:
    length = draw(st.integers(0, 4))
    column = st.lists
    values = st.sampled_from([1.0, float("nan"), float("inf"), -float("inf"), 1e308, -1e308, 2.0**60])
    return model.Series(
        metric=draw(st.sampled_from([names.LOSS, names.STEP, names.GRAD_NORM, ""])),
        times_ns=draw(column(TIMES, min_size=length, max_size=length)),
        values=draw(column(values, min_size=length, max_size=length)),
        steps=draw(st.none() | column(st.sampled_from([None, -1, 5, 2**62]), min_size=length, max_size=length)),
    )


@st.composite
def rubbish(draw: st.DrawFn) -> model.Batch:
    who = model.Identity(
        tenant="t1",
        process=draw(st.sampled_from(["job-1-0", "stranger", ""])),
        run=draw(st.sampled_from(["other", "", "a/b"])),
        rank=draw(st.sampled_from([None, 0, 1, -5, 10**9])),
        world_size=draw(st.sampled_from([None, 2, 0, -1])),
        role=draw(st.sampled_from(["trainer", "auxiliary", "node_agent", "weird"])),
        node=draw(st.sampled_from(["", "node-0"])),
        started_ns=draw(st.sampled_from([None, 0, at(1)])),
    )
    return model.Batch(
        identity=who,
        received_ns=0,
        position="",
        sender="s",
        sequence=draw(st.sampled_from([None, 0, 1, 2, 3, -3, 2**62])),
        series=draw(st.lists(series(), max_size=3)),
        logs=draw(st.lists(LOGS, max_size=3)),
    )


@cache
def tables() -> Tables:
    return load_tables()


@pytest.mark.timeout(60 + 5 * CASE_COUNT)
@settings(max_examples=2 * CASE_COUNT, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.lists(st.tuples(st.floats(1, 50), rubbish()), max_size=25))
def test_rubbish_harms_nobody(sent: list[tuple[float, model.Batch]]) -> None:
    other = Script(2, run="other")
    other.sent = list(sent)
    driver = Driver(tables=tables())
    outcome = driver.play([faults.exception_on_one_rank(), other], 60)
    assert outcome.failures == {}
    assert all(data is not None for data in driver.stages.take_snapshots().values())
    assert not driver.stages.take_output().dead_letters, "every state can be encoded"
    (incident,) = [one for one in outcome.incidents() if one.run.id == "job"]
    assert (incident.first_fault.rank, incident.page) == (1, True)
