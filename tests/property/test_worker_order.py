"""One process's batches in any order, some twice: the same rollups, events, findings and standing."""

import math
import random
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firstfault import conventions as names
from firstfault_server.core import model
from firstfault_server.core.stages.worker import Worker
from firstfault_server.core.stages.worker_state import WorkerState
from firstfault_server.core.thresholds import Thresholds
from firstfault_server.tables import Tables, load_tables
from tests.property.scripts import at
from tests.property.test_core_order import CASE_COUNT

WHO = model.Identity(tenant="t", process="p", run="r", rank=1, node="n")
STEPS = 40


@cache
def tables() -> Tables:
    return load_tables()


def batches(numbered: bool, nan_from: int, nan_until: int) -> list[model.Batch]:
    """A second of training each: three points, a phase now and then, an exception at the end."""
    made: list[model.Batch] = []
    for number in range(STEPS):
        times = [at(number) + third * 300_000_000 for third in range(3)]
        steps: list[int | None] = [3 * number + third for third in range(3)]
        losses = [math.nan if nan_from <= 3 * number + third < nan_until else 2.0 / (1 + 3 * number + third) for third in range(3)]
        series = [
            model.Series(metric=names.LOSS, times_ns=times, values=losses, steps=steps),
            model.Series(metric=names.STEP, times_ns=times, values=[float(step or 0) for step in steps]),
        ]
        logs = []
        if number % 10 in (3, 5):
            state = "begin" if number % 10 == 3 else "end"
            logs.append(
                model.LogRecord(
                    time_ns=times[0], event_name=names.PHASE, attributes={names.PHASE_NAME: "evaluation", names.PHASE_STATE: state}
                )
            )
        if number == STEPS - 1:
            logs.append(
                model.LogRecord(
                    time_ns=times[2],
                    event_name=names.EXCEPTION,
                    severity=21,
                    attributes={names.EXCEPTION_TYPE: "ValueError", names.EXCEPTION_MESSAGE: "bad", names.EXCEPTION_FATAL: True},
                )
            )
        made.append(
            model.Batch(
                identity=WHO,
                received_ns=0,
                position="",
                sender="sdk" if numbered else "",
                sequence=number + 1 if numbered else None,
                series=series,
                logs=logs,
            )
        )
    return made


def outcome(made: list[model.Batch], numbered: bool, snapshot_at: int) -> tuple[object, ...]:
    """What a worker makes of batches that arrive in this order, within the lateness bound."""
    stage = Worker(Thresholds(), tables().text_reader())
    state: WorkerState = stage.new("t/p/r")
    out: list[model.AnyRecord] = []
    base = at(STEPS)
    for place, batch in enumerate(made):
        received = base + place * 10_000_000
        copy = model.Batch(
            identity=batch.identity,
            received_ns=received,
            position=f"{place:06d}",
            sender=batch.sender,
            sequence=batch.sequence,
            series=batch.series,
            logs=batch.logs,
        )
        out += stage.on_batch(state, [copy], received)
        if place == snapshot_at:
            state = stage.decode(stage.encode(state))
    while (due := stage.deadline(state)) is not None and due < base + 120 * 1_000_000_000:
        out += stage.on_tick(state, due)
    windows: dict[tuple[str, int], list[model.Rollup]] = {}
    for row in out:
        if isinstance(row, model.Rollup):
            windows.setdefault((row.metric, row.window_ns), []).append(row)
    sums = {
        key: (sum(row.count for row in rows), sum(row.nonfinite for row in rows), round(math.fsum(row.sum for row in rows), 9))
        for key, rows in windows.items()
    }
    events = {(one.id, one.event_name, one.fingerprint) for one in out if isinstance(one, model.Event)}
    findings = {(one.id, one.step, one.ended) for one in out if isinstance(one, model.Finding)}
    last = [one for one in out if isinstance(one, model.Summary)][-1]
    pause = None if state.pause.total == 0 else (state.pause.total, state.pause.quantile(0.99))
    return sums, events, findings, (last.step, last.phase, last.time_ns), pause


@pytest.mark.timeout(60 + 5 * CASE_COUNT)
@settings(max_examples=2 * CASE_COUNT, deadline=None)
@given(
    numbered=st.booleans(),
    start=st.integers(0, 110),
    length=st.integers(0, 12),
    seed=st.integers(0, 10**6),
    repeats=st.floats(0, 1),
    snapshot_at=st.integers(0, STEPS),
)
def test_any_order_of_a_process_gives_the_same(
    numbered: bool, start: int, length: int, seed: int, repeats: float, snapshot_at: int
) -> None:
    made = batches(numbered, start, start + length)
    chance = random.Random(seed)
    mixed = made + [one for one in made if chance.random() < repeats]
    chance.shuffle(mixed)
    assert outcome(mixed, numbered, snapshot_at) == outcome(made, numbered, -1)
    findings = outcome(made, numbered, -1)[2]
    assert isinstance(findings, set)
    assert bool(findings) == (min(start + length, 3 * STEPS) - start >= 5)
