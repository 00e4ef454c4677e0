"""What detection costs: per exception, per summary, per point, and how it grows with the number of ranks."""

import time
from collections.abc import Callable

import pytest

from firstfault import conventions as names
from firstfault_server.core import model
from firstfault_server.core.cause.first_fault import decide
from firstfault_server.core.cause.observation import Fault, RankObservation
from firstfault_server.core.stages.run import Run
from firstfault_server.core.stages.worker import Worker
from firstfault_server.core.thresholds import Thresholds
from firstfault_server.tables import Tables, load_tables
from tests.property.scripts import T0, at

pytestmark = pytest.mark.bench

METRICS = (
    names.LOSS,
    names.GRAD_NORM,
    names.LEARNING_RATE,
    names.STEP_DURATION,
    names.DATA_WAIT,
    names.COLLECTIVE_WAIT,
    names.GPU_ALLOCATED,
    names.GPU_RESERVED,
    "custom.metric",
)


@pytest.fixture(scope="module")
def tables() -> Tables:
    return load_tables()


def identity(rank: int, world: int) -> model.Identity:
    return model.Identity(
        tenant="t", process=f"p{rank}", run="r", rank=rank, world_size=world, node=f"n{rank // 8}", cluster="c", started_ns=T0
    )


def cpu(call: Callable[[], object]) -> float:
    """CPU seconds of one call."""
    began = time.process_time()
    call()
    return time.process_time() - began


def run_costs(world: int, tables: Tables) -> tuple[float, float]:
    """CPU seconds of a second of training, and of the second in which every rank speaks."""
    stage = Run(Thresholds(), tables.taxonomy, tables.advice)
    state = stage.new("t/r")
    who = [identity(rank, world) for rank in range(world)]

    def second(now: int) -> None:
        records = [
            model.Summary(identity=one, received_ns=at(now), time_ns=at(now), step=10 * now, progress_ns=at(now), heartbeat_ns=at(now))
            for one in who
        ]
        stage.on_batch(state, records, at(now + 1))
        stage.on_tick(state, at(now + 1))
        stage.deadline(state)

    second(1)
    steady = min(cpu(lambda now=now: second(now)) for now in range(2, 12))  # type: ignore[misc]
    faults = [
        model.Event(
            id=f"e{rank}",
            identity=one,
            time_ns=at(13) + rank,
            received_ns=at(13) + rank,
            event_name=names.EXCEPTION,
            severity=21,
            exception=model.ExceptionInfo(type="ConnectionResetError", message="reset by peer", stacktrace="x" * 2000),
            symptom="cuda_oom" if rank == 77 else "peer_lost",
            text_role="initiating" if rank == 77 else "cascade",
            fingerprint="f",
        )
        for rank, one in enumerate(who)
    ]
    made: list[model.AnyRecord] = []
    failure = cpu(lambda: made.extend(stage.on_batch(state, faults, at(14))))
    incidents = [one for one in made if isinstance(one, model.Incident)]
    assert [one.first_fault.rank for one in incidents] == [77]
    return steady, failure


def test_a_run_costs_in_proportion_to_its_ranks(tables: Tables, record_property: Callable[[str, object], None]) -> None:
    small, large = run_costs(512, tables), run_costs(4096, tables)
    print(
        f"\nrun stage, 4,096 ranks: {large[0] * 1e3:.1f} ms a second ({large[0] / 4096 * 1e6:.1f} us a summary), "
        f"{large[1] * 1e3:.0f} ms when every rank fails at once ({large[1] / 4096 * 1e6:.0f} us an exception)"
    )
    record_property("run_ms_per_s", large[0] * 1e3)
    record_property("run_failure_ms", large[1] * 1e3)
    # Eight times the ranks; twice that leaves room for caches and a busy machine, a quadratic cost would be 64 times.
    assert large[0] / small[0] < 16
    assert large[1] / small[1] < 16
    assert large[0] < 0.5, "half a core for one run, allowed five-fold of the recipe's 0.07"


def test_points_per_second_of_one_core(tables: Tables, record_property: Callable[[str, object], None]) -> None:
    stage = Worker(Thresholds(), tables.text_reader())
    state = stage.new("t/p/r")
    count, points = 400, 100

    def batch(number: int) -> model.Batch:
        times = [at(number) + at_tenth * 100_000_000 for at_tenth in range(10)]
        steps: list[int | None] = [10 * number + tenth for tenth in range(10)]
        series = [model.Series(metric=name, times_ns=times, values=[float(tenth) for tenth in range(10)], steps=steps) for name in METRICS]
        series.append(model.Series(metric=names.STEP, times_ns=times, values=[float(step or 0) for step in steps]))
        return model.Batch(
            identity=identity(0, 2), received_ns=times[-1], position=f"{number:09d}", sender="sdk", sequence=number + 1, series=series
        )

    batches = [batch(number) for number in range(count)]

    def feed(part: list[model.Batch]) -> None:
        for one in part:
            stage.on_batch(state, [one], one.received_ns)

    cost = min(cpu(lambda at_=at_: feed(batches[at_ : at_ + 50])) for at_ in range(0, count, 50)) / 50 / points  # type: ignore[misc]
    print(f"\nworker stage: {cost * 1e6:.2f} us a point, {120_000 * cost:.2f} core at 120,000 points/s")
    record_property("worker_us_per_point", cost * 1e6)
    assert 120_000 * cost < 2.0


def test_an_exception_is_read_and_judged_quickly(tables: Tables, record_property: Callable[[str, object], None]) -> None:
    reader = tables.text_reader()
    frames = [{"module": f"train.layer{number}", "function": "forward", "in_app": number % 2 == 0} for number in range(30)]
    message = "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a total capacity of 79.15 GiB"
    reader.exception("torch.OutOfMemoryError", message, "", frames, ())
    read = min(cpu(lambda: [reader.exception("torch.OutOfMemoryError", message, "", frames, ()) for _ in range(50)]) for _ in range(5)) / 50

    def seen(rank: int) -> RankObservation:
        fault = Fault(
            id=str(rank), kind="exception", symptom="peer_lost", role="cascade" if rank else "initiating", time_ns=rank, fatal=True
        )
        return RankObservation(rank=rank, process=f"p{rank}", node=f"n{rank // 8}", faults=[fault], ended=True)

    def judged(world: int) -> float:
        ranks = [seen(rank) for rank in range(world)]
        return min(cpu(lambda: decide(ranks)) for _ in range(3))

    small, large = judged(512), judged(4096)
    print(f"\nexception: {read * 1e3:.2f} ms to read and fingerprint; verdict over 4,096 ranks {large * 1e3:.1f} ms")
    record_property("read_ms", read * 1e3)
    record_property("verdict_ms", large * 1e3)
    assert read < 0.05
    assert large / small < 16
