"""The hot path and its queues."""

import math
import time
from typing import Any

import pytest

from firstfault._beacon import Beacon, BeaconReader
from firstfault._guard import Losses
from firstfault._recorder import ENTRIES_KEPT, STEPS_KEPT, Entry, Recorder, number_of

numpy = pytest.importorskip("numpy")


@pytest.fixture
def losses() -> Losses:
    return Losses()


@pytest.fixture
def recorder(losses: Losses) -> Recorder:
    return Recorder(None, losses)


def test_numbers_and_steps_are_kept_exactly(recorder: Recorder, losses: Losses) -> None:
    before = time.time_ns()
    recorder.log({"loss": math.nan, "inf": math.inf, "count": 3, "flag": True}, 7)
    recorder.log({"loss": 0.5}, None)
    (first_ns, step, first), (_, no_step, second) = recorder.samples
    assert before <= first_ns <= time.time_ns()
    assert (step, no_step) == (7, None)
    assert math.isnan(first["loss"]) and first["inf"] == math.inf and first["count"] == 3 and first["flag"] == 1
    assert second == {"loss": 0.5}
    assert losses.totals() == {}


def test_later_changes_do_not_show(recorder: Recorder) -> None:
    metrics: dict[str, Any] = {"loss": 1.0}
    array, scalar = numpy.array(2.5), numpy.float32(1.5)
    recorder.log(metrics, 1)
    recorder.log({"array": array, "scalar": scalar}, 1)
    metrics["loss"] = 9.0
    array[...] = 9.0
    assert [kept for _, _, kept in recorder.samples] == [{"loss": 1.0}, {"array": 2.5, "scalar": 1.5}]


def _tensor(device: str, numel: int = 1) -> Any:
    """Stands for torch.Tensor: the class is known by its name, and asking it for its value is counted."""

    class Device:
        type = device

    class Tensor:
        asked = 0

        def __init__(self) -> None:
            self.device = Device()

        def numel(self) -> int:
            return numel

        def is_complex(self) -> bool:
            return False

        def item(self) -> float:
            Tensor.asked += 1
            return 4.0

        def __float__(self) -> float:
            raise AssertionError("float() was called")

    Tensor.__module__, Tensor.__qualname__ = "torch", "Tensor"
    return Tensor()


def test_a_tensor_on_the_cpu_counts_one_on_an_accelerator_is_never_asked(recorder: Recorder, losses: Losses) -> None:
    host, device = _tensor("cpu"), _tensor("cuda")
    recorder.log({"host": host, "device": device}, host)
    assert recorder.samples[0][1:] == (4, {"host": 4.0})
    assert type(device).asked == 0
    assert losses.totals() == {"device_tensor": 1}


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("0.5", "not_a_number"),
        (None, "not_a_number"),
        ([1.0], "not_a_number"),
        (object(), "not_a_number"),
        (1 + 2j, "not_a_number"),
        (numpy.zeros(3), "not_a_scalar"),
        (numpy.array("x"), "not_a_scalar"),
        (numpy.datetime64("2026-01-01"), "not_a_scalar"),
        (_tensor("cpu", numel=4), "not_a_scalar"),
        (_tensor("xla"), "device_tensor"),
        (type("DTensor", (), {"__module__": "torch.distributed.tensor"})(), "device_tensor"),
        (type("ArrayImpl", (), {"__module__": "jaxlib.xla_extension"})(), "device_tensor"),
    ],
)
def test_what_is_no_number_is_counted_and_its_neighbours_stay(recorder: Recorder, losses: Losses, value: Any, reason: str) -> None:
    recorder.log({"bad": value, "good": 1.0}, 1)
    assert recorder.samples[0][2] == {"good": 1.0}
    assert losses.totals() == {reason: 1}


class Loud(float):
    """A number whose conversions are code."""

    def __float__(self) -> float:
        raise AssertionError("__float__ was called")


class LoudDict(dict[str, Any]):
    """A dict whose methods are code."""

    def items(self) -> Any:
        raise AssertionError("items was called")

    values = copy = __iter__ = items


def test_subclasses_do_not_run_their_code(recorder: Recorder) -> None:
    recorder.log(LoudDict(loss=Loud(2.0)), 1)
    assert recorder.samples[0][2] == {"loss": 2.0}
    assert type(number_of(Loud(2.0))) is float


@pytest.mark.parametrize("step", [2**63, -(2**63) - 1, 10**400])
def test_a_step_beyond_64_bits_costs_only_itself(recorder: Recorder, losses: Losses, step: int) -> None:
    recorder.log({"loss": 1.0}, step)
    assert recorder.samples[0][1:] == (None, {"loss": 1.0})
    assert losses.totals() == {"step_out_of_range": 1}


@pytest.mark.parametrize(("step", "kept"), [(numpy.int64(4), 4), (2.0, 2), (True, 1), (math.nan, None), ("3", None)])
def test_steps_of_other_types(recorder: Recorder, step: Any, kept: int | None) -> None:
    recorder.log({"loss": 1.0}, step)
    assert recorder.samples[0][1] == kept


def test_what_is_no_dict_is_counted(recorder: Recorder, losses: Losses) -> None:
    bad: Any = 3
    recorder.log(bad, 1)
    assert losses.totals() == {"not_a_dict": 1}


def test_full_queues_lose_their_oldest_and_count(recorder: Recorder, losses: Losses) -> None:
    for number in range(STEPS_KEPT + 3):
        recorder.log({"loss": float(number)}, number)
    assert len(recorder.samples) == STEPS_KEPT and recorder.samples[0][1] == 3
    assert losses.totals() == {"queue_full": 3}
    for number in range(ENTRIES_KEPT + 2):
        recorder.add(Entry(number, "e", 9))
    assert recorder.entries[0].time_ns == 2
    assert losses.totals() == {"queue_full": 5}


def test_the_beacon_shows_step_and_progress(losses: Losses) -> None:
    beacon = Beacon()
    reader = BeaconReader(beacon.fd)
    try:
        assert (reader.read().step, reader.read().progress_ns) == (None, None)
        recorder = Recorder(beacon, losses)
        before = time.time_ns()
        recorder.log({"loss": 1.0}, 12)
        recorder.log({"loss": 1.0}, None)
        seen = reader.read()
        assert seen.step == 12 and before <= (seen.progress_ns or 0) <= time.time_ns()
        del recorder
    finally:
        reader.close()
        beacon.close()
