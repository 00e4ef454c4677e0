"""The rules of the keyed stages: when they are called, with what, and that snapshots lose nothing."""

from typing import Any

import pytest

from firstfault_server.core import model
from firstfault_server.detect.keyed import KeyedStages, SnapshotUnreadable
from tests.unit.detect.toys import RunState, S, ToyFleet, ToyRun, ToyWorker

T = 1_790_000_000 * S


def stages() -> KeyedStages:
    return KeyedStages({"worker": ToyWorker(), "run": ToyRun(), "fleet": ToyFleet()})


def batch(at: int, process: str = "p0", run: str = "r", body: str | None = None, event: str = "exception") -> model.Batch:
    logs = [] if body is None else [model.LogRecord(time_ns=at, event_name=event, body=body)]
    return model.Batch(identity=model.Identity(tenant="t", process=process, run=run), received_ns=at, position=str(at), logs=logs)


def feed(engine: KeyedStages, *records: model.Batch | int) -> None:
    """Batches and clock records, in order of receipt."""
    for record in records:
        at = record if isinstance(record, int) else record.received_ns
        engine.advance(at)
        if not isinstance(record, int):
            engine.give("worker", record, at)


def state_of(engine: KeyedStages, stage: Any, name: str, key: str) -> Any:
    engine.changed.add((name, key))
    data = engine.take_snapshots()[name, key]
    assert data is not None
    return stage.decode(engine._decode(data).state)


def run_state(engine: KeyedStages, key: str = "t/r") -> RunState:
    found = state_of(engine, ToyRun(), "run", key)
    assert isinstance(found, RunState)
    return found


def test_a_gathering_stage_is_called_once_a_second_with_what_came_before_it() -> None:
    engine = stages()
    feed(engine, batch(T), batch(T + S // 2), batch(T + S - 1), batch(T + S), T + 2 * S)
    state = run_state(engine)
    assert state.batches == [3, 1]
    assert state.ticks == [T // S + 1, T // S + 2]


def test_an_urgent_record_is_taken_at_once_but_only_the_first_of_a_second() -> None:
    engine = stages()
    feed(engine, batch(T), batch(T + 1, body="boom"))
    assert [i.title for i in engine.output.incidents] == ["errors ['boom'] silent []"]
    assert engine.urgent
    feed(engine, batch(T + 2, body="bang"))
    assert len(engine.output.incidents) == 1
    feed(engine, T + 2 * S)
    assert [i.revision for i in engine.output.incidents] == [1, 2]


def test_a_deadline_is_kept_without_any_ticks_before_it() -> None:
    engine = stages()
    feed(engine, batch(T), *(T + i * S // 4 for i in range(1, 48)))
    state = run_state(engine)
    assert state.silent == ["p0"]
    assert state.ticks == [T // S + 1, T // S + 9]


def test_a_hole_in_receive_time_makes_nobody_silent() -> None:
    engine = stages()
    feed(engine, batch(T), T + S, T + 3600 * S, T + 3601 * S)
    assert engine.output.incidents == []
    assert run_state(engine).silent == []
    feed(engine, *(T + 3601 * S + i * S for i in range(1, 12)))
    assert run_state(engine).silent == ["p0"]


def test_what_waited_before_a_hole_is_settled_as_of_then() -> None:
    engine = stages()
    feed(engine, batch(T), batch(T + 5, body="late", event="train.log"), T + 100 * S)
    assert run_state(engine).ticks[0] == T // S + 1


def test_a_long_hole_costs_no_tick_per_second() -> None:
    engine = stages()
    feed(engine, batch(T), T + 30 * 24 * 3600 * S)
    assert len(run_state(engine).ticks) < 5


def test_a_state_without_deadline_goes() -> None:
    engine = stages()
    feed(engine, batch(T), T + 2 * S)
    assert engine.keys("run") == 1
    feed(engine, batch(T + 2 * S, body="end", event="train.log"), T + 4 * S)
    assert engine.keys("run") == 0
    assert engine.take_snapshots()["run", "t/r"] is None


def test_a_record_that_raises_is_a_dead_letter_and_the_others_go_on() -> None:
    engine = stages()
    feed(engine, batch(T, "p0", body="raise"), batch(T, "p1", body="poison", event="train.log"), batch(T, "p2"), T + 2 * S)
    reasons = sorted(letter.reason for letter in engine.output.dead_letters)
    assert reasons == ["stage run failed: ValueError: poison", "stage worker failed: RuntimeError: told to"]
    assert {letter.tenant for letter in engine.output.dead_letters} == {"t"}
    assert sorted(run_state(engine).last) == ["p1", "p2"]


def test_snapshots_taken_anywhere_lose_nothing() -> None:
    script: list[model.Batch | int] = [
        batch(T),
        batch(T + 10, "p1", body="boom"),
        batch(T + 20, "p2", body="bang"),
        T + S // 2,
        batch(T + S + 3, "p1", "other", body="x"),
        T + 2 * S,
        batch(T + 3 * S, "p3"),
        *(T + 3 * S + i * S // 2 for i in range(1, 30)),
    ]

    def play(cut: int) -> tuple[list[model.Incident], dict[tuple[str, str], bytes | None]]:
        engine, found = stages(), []
        kept: dict[tuple[str, str], bytes | None] = {}
        for i, record in enumerate(script):
            if i == cut:
                found += engine.take_output().incidents
                kept |= engine.take_snapshots()
                at = engine.now_ns
                engine = stages()
                engine.restore([(s, k, d) for (s, k), d in kept.items() if d is not None], at)
            feed(engine, record)
        kept |= engine.take_snapshots()
        return found + engine.take_output().incidents, kept

    whole = play(len(script) + 1)
    assert whole[0]
    for cut in range(1, len(script)):
        assert play(cut) == whole, cut


def test_a_state_that_cannot_be_read_stops_the_start() -> None:
    with pytest.raises(SnapshotUnreadable, match="run 't/r'"):
        stages().restore([("run", "t/r", b"\xc1")], T)


def test_states_of_stages_that_are_gone_are_passed_over() -> None:
    engine = stages()
    engine.restore([("later", "k", b"\xc1")], T)
    assert engine.keys("run") == 0
