"""What the worker stage makes of one process's batches."""

import math
from typing import Any

import pytest

from firstfault import conventions as names
from firstfault_server.core import model
from firstfault_server.core.stages.worker import Worker
from firstfault_server.core.stages.worker_events import TAIL_LINE
from firstfault_server.core.stages.worker_state import WorkerState
from firstfault_server.core.thresholds import Thresholds
from firstfault_server.tables import load_tables
from tests.property.scripts import at

READER = load_tables().text_reader()


class Stand:
    def __init__(self) -> None:
        self.stage = Worker(Thresholds(), READER)
        self.state: WorkerState = self.stage.new("t/p/r")
        self.sequences: dict[str, int] = {}

    def give(
        self,
        when: float,
        *logs: model.LogRecord,
        series: list[model.Series] | None = None,
        sender: str = "sdk",
        sequence: int | None = 0,
        role: str = "trainer",
    ) -> list[Any]:
        """One batch; `sequence` 0 counts on, None is a foreign sender."""
        if sequence == 0:
            sequence = self.sequences[sender] = self.sequences.get(sender, 0) + 1
        who = model.Identity(tenant="t", process="p", run="r", rank=1, node="n", role=role)
        batch = model.Batch(
            identity=who,
            received_ns=at(when),
            position=f"{when:012.3f}",
            sender=sender if sequence is not None else "",
            sequence=sequence,
            series=series or [],
            logs=list(logs),
        )
        return self.stage.on_batch(self.state, [batch], at(when))


def record(name: str, when: float, body: str = "", severity: int = 9, **attributes: Any) -> model.LogRecord:
    named = {getattr(names, key): value for key, value in attributes.items()}
    return model.LogRecord(time_ns=at(when), event_name=name, severity=severity, body=body, attributes=named)


def losses(when: float, values: list[float], first_step: int) -> list[model.Series]:
    times = [at(when) + 100_000_000 * number for number in range(len(values))]
    return [model.Series(metric=names.LOSS, times_ns=times, values=values, steps=list(range(first_step, first_step + len(values))))]


def only(records: list[Any], kind: type) -> Any:
    (one,) = [record for record in records if isinstance(record, kind)]
    return one


def test_a_redelivered_batch_makes_nothing() -> None:
    stand = Stand()
    first = stand.give(1, series=losses(1, [1.0], 1), sequence=7)
    assert any(isinstance(one, model.Rollup) for one in first)
    assert stand.give(2, series=losses(1, [1.0], 1), sequence=7) == []
    assert stand.give(3, series=losses(1, [1.0], 1), sequence=7, sender="sidecar"), "another sender has numbers of its own"


def test_event_ids_are_those_of_the_place_in_the_stream() -> None:
    ids = set()
    for received in (1, 50):
        event = only(Stand().give(received, record(names.LOG, 1, "CUDA error: out of memory", 17), sequence=5), model.Event)
        ids.add(event.id)
    assert len(ids) == 1
    other = only(Stand().give(1, record(names.LOG, 1, "CUDA error: out of memory", 17), sequence=6), model.Event)
    assert other.id not in ids


def test_an_exception_is_read_once_and_carries_its_identity() -> None:
    event = only(
        Stand().give(
            1,
            record(
                names.EXCEPTION,
                1,
                EXCEPTION_TYPE="torch.OutOfMemoryError",
                EXCEPTION_MESSAGE="CUDA out of memory. Tried to allocate 2.00 GiB",
                EXCEPTION_FATAL=True,
                STACK_FRAMES='[{"module":"train","function":"step","in_app":true}]',
            ),
        ),
        model.Event,
    )
    assert (event.symptom, event.severity) == ("cuda_oom", 21)
    assert event.fingerprint and event.stack_hash == event.fingerprint
    assert event.exception.type == "torch.OutOfMemoryError"


@pytest.mark.parametrize("frames", ["", "[", "{}", "[1, null, {}]", '[{"module": 3}]', "9" * 5000])
def test_frames_that_are_none_harm_nothing(frames: str) -> None:
    event = only(Stand().give(1, record(names.EXCEPTION, 1, EXCEPTION_TYPE="ValueError", STACK_FRAMES=frames)), model.Event)
    assert event.symptom == "python_error"


def test_an_interrupt_is_a_request_to_stop() -> None:
    event = only(Stand().give(1, record(names.EXCEPTION, 1, EXCEPTION_TYPE="KeyboardInterrupt", EXCEPTION_FATAL=True)), model.Event)
    assert (event.symptom, event.text_role) == ("preempted", "teardown")


def test_the_most_telling_line_of_a_crashed_process_is_found() -> None:
    tail = ["loading", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB", "bye"]
    event = only(Stand().give(1, record(names.EXIT, 1, EXIT_STATE="failed", EXIT_CODE=1, STDERR_TAIL=tail)), model.Event)
    assert (event.symptom, event.attributes[TAIL_LINE]) == ("cuda_oom", tail[1])
    clean = only(Stand().give(1, record(names.EXIT, 1, EXIT_STATE="finished", EXIT_CODE=0, STDERR_TAIL=tail)), model.Event)
    assert clean.symptom == ""


def test_records_that_only_move_the_state_make_no_event() -> None:
    out = Stand().give(
        1,
        record(names.HEARTBEAT, 1),
        record(names.PHASE, 1, PHASE_NAME="train", PHASE_STATE="begin"),
        record(names.COLLECTIVE, 1, COLLECTIVE_GROUP="world", COLLECTIVE_SEQ=4, COLLECTIVE_STATE="entered"),
        record(names.CHECKPOINT, 1, CHECKPOINT_STEP=3),
        record("custom", 1, "hello"),
    )
    assert not [one for one in out if isinstance(one, model.Event)]
    summary = only(out, model.Summary)
    assert (summary.phase, summary.collective_group, summary.collective_seq, summary.collective_state) == ("train", "world", 4, "entered")
    assert (summary.checkpoint_step, summary.heartbeat_ns) == (3, at(1))


def test_warnings_of_any_name_and_absent_ranks_are_events() -> None:
    out = Stand().give(1, record("custom", 1, "careful", 13), record(names.COLLECTIVE, 1, COLLECTIVE_MISSING=[3]))
    first, second = [one for one in out if isinstance(one, model.Event)]
    assert (first.event_name, second.text_role, second.symptom) == ("custom", "waiting", "collective_timeout")


def test_times_that_cannot_be_true_are_replaced_by_receive_time() -> None:
    stand = Stand()
    rollup = only(stand.give(10, series=losses(10_000, [1.0], 1)), model.Rollup)
    assert rollup.first_ns == at(10)
    assert only(stand.give(11, record(names.LOG, 10_000, "CUDA error", 17)), model.Event).time_ns == at(11)
    old = only(stand.give(5000, record(names.LOG, 1, "CUDA error", 17)), model.Event)
    assert old.time_ns == at(1), "a numbered batch may have waited in a spool"
    foreign = only(stand.give(5001, record(names.LOG, 1, "CUDA error", 17), sequence=None), model.Event)
    assert foreign.time_ns == at(5001)


def test_equal_points_and_records_of_foreign_senders_count_once() -> None:
    stand = Stand()
    line = record(names.LOG, 1, "CUDA error: out of memory", 17)
    first = stand.give(1, line, series=losses(1, [1.0, 2.0], 1), sequence=None)
    again = stand.give(2, line, series=losses(1, [1.0, 2.0, 3.0], 1), sequence=None)
    assert only(first, model.Rollup).count == 2
    assert only(again, model.Rollup).count == 1
    assert [one for one in again if isinstance(one, model.Event)] == []


def test_foreign_memory_is_bounded() -> None:
    stand = Stand()
    for number in range(300):
        series = [model.Series(metric=f"m{metric}", times_ns=[at(number) + k for k in range(5)], values=[0.0] * 5) for metric in range(10)]
        stand.give(number, record(names.LOG, number, f"CUDA error {number}", 17), series=series, sequence=None)
    assert sum(len(times) for times in stand.state.foreign.values()) <= 5000
    assert len(stand.state.foreign_logs) <= 1024


def test_a_gap_delays_alarms_by_the_lateness_bound_and_no_more() -> None:
    stand = Stand()
    stand.give(1, series=losses(1, [1.0], 1), sequence=1)
    out = stand.give(3, series=losses(3, [math.nan] * 6, 10), sequence=3)
    assert not [one for one in out if isinstance(one, model.Finding)]
    assert stand.stage.deadline(stand.state) == at(33)
    finding = only(stand.stage.on_tick(stand.state, at(33)), model.Finding)
    assert (finding.step, finding.opens) == (10, True)


def test_presence_is_told_every_five_seconds_and_at_the_end() -> None:
    stand = Stand()
    told = [sum(isinstance(one, model.Presence) for one in stand.give(when, record(names.HEARTBEAT, when))) for when in range(1, 12)]
    assert told == [1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1]
    last = only(stand.give(11.5, record(names.EXIT, 11.5, EXIT_STATE="finished")), model.Presence)
    assert last.ended


def test_the_agent_of_a_node_is_no_training_process() -> None:
    out = Stand().give(1, record(names.XID, 1, "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus."), role="node_agent")
    assert [type(one) for one in out] == [model.Event]
    assert out[0].symptom == "gpu_lost"


def test_an_xid_is_known_by_its_number_alone() -> None:
    event = only(Stand().give(1, record(names.XID, 1, "", XID_CODE="94"), role="node_agent"), model.Event)
    assert event.symptom == "gpu_memory_error"


def test_pauses_are_learned_and_told_after_warm_up() -> None:
    stand = Stand()
    summary: Any = None
    for number in range(40):
        when = 1 + 0.5 * number + (8 if number > 20 else 0)
        summary = only(stand.give(when, series=losses(when, [1.0], number)), model.Summary)
        if number == 10:
            assert summary.pause_p99_s is None
    assert summary.step == 39
    assert summary.longest_pause_s == pytest.approx(8.5)
    assert summary.pause_p99_s == pytest.approx(8.5, rel=0.06)


def test_a_state_is_kept_for_a_day_and_then_goes() -> None:
    stand = Stand()
    stand.give(1, record(names.EXIT, 1, EXIT_STATE="finished"))
    due = stand.stage.deadline(stand.state)
    assert due == at(1) + 24 * 3600 * 1_000_000_000
    stand.stage.on_tick(stand.state, due)
    assert stand.stage.deadline(stand.state) is None
