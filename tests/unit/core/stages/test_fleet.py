"""Groups over runs: counts, runs, nodes; each revision passes once."""

from collections.abc import Sequence
from typing import Any

import pytest

from firstfault_server.core import model
from firstfault_server.core.grouping.similarity import FrameTable
from firstfault_server.core.stages.fleet import Fleet, FleetState
from firstfault_server.core.stages.protocol import FOREVER
from firstfault_server.tables import load_tables

HOUR = 3600 * 1_000_000_000
START = 1000 * 24 * HOUR


def incident(
    number: int, when_h: float, *, fingerprint: str = "f", node: str = "n1", status: Any = "settled", **fields: Any
) -> model.Incident:
    opened = START + round(when_h * HOUR)
    return model.Incident(
        id=f"i{number}",
        revision=fields.pop("revision", 1),
        tenant="t",
        run=model.RunRef(id=f"r{number}"),
        symptom="cuda_oom",
        family="memory",
        first_fault=model.FirstFault(status=status, node=node, exception=fields.pop("exception", None)),
        fingerprint=model.Fingerprint(id=fingerprint),
        opened_at=opened,
        updated_at=opened,
        **fields,
    )


def history(*incidents: model.Incident) -> model.History:
    stage = Fleet()
    state: FleetState = stage.new("t/memory")
    out: list[model.AnyRecord] = []
    for one in incidents:
        assert stage.key(one) == "t/memory"
        out = stage.on_batch(state, [one], one.updated_at)
        state = stage.decode(stage.encode(state))
        assert stage.deadline(state) == FOREVER
    (last,) = out
    assert isinstance(last, model.Incident)
    return last.history


def test_the_first_of_its_kind_is_new() -> None:
    seen = history(incident(1, 0))
    assert (seen.count_24h, seen.count_7d, seen.runs, seen.same_node, seen.group) == (1, 1, [], 0, "f")


def test_earlier_ones_are_counted_within_a_day_and_a_week() -> None:
    seen = history(incident(1, 0), incident(2, 100), incident(3, 120, node="n2"), incident(4, 121))
    assert (seen.count_24h, seen.count_7d) == (3, 4)
    assert seen.runs == ["r3", "r2", "r1"]
    assert seen.same_node == 2
    assert seen.first_seen == START


def test_another_fingerprint_is_another_group() -> None:
    assert history(incident(1, 0), incident(2, 1, fingerprint="g")).count_7d == 1


def test_revisions_of_one_incident_count_once_and_recurrences_count_each() -> None:
    again = incident(1, 1, revision=2, recurrences=2)
    assert history(incident(1, 0), again).count_24h == 3


def test_a_provisional_verdict_sees_the_group_and_is_not_seen_by_it() -> None:
    assert history(incident(1, 0), incident(2, 1, status="provisional")).count_24h == 2
    assert history(incident(1, 0, status="provisional"), incident(2, 1)).count_24h == 1


def test_a_corrected_incident_moves_to_its_group() -> None:
    moved = [incident(1, 0), incident(1, 0, revision=2, fingerprint="g"), incident(2, 1)]
    assert history(*moved).count_24h == 1
    assert history(*moved[:2], incident(2, 1, fingerprint="g")).count_24h == 2


def test_a_withdrawn_incident_leaves_its_group() -> None:
    gone = incident(1, 0, revision=2, state="resolved", resolved_why="withdrawn: asked to stop")
    assert history(incident(1, 0), gone, incident(2, 1)).count_24h == 1


def test_memory_is_bounded() -> None:
    stage = Fleet()
    state = stage.new("t/memory")
    for number in range(2500):
        stage.on_batch(state, [incident(number, number / 1000, fingerprint=f"f{number % 2200}")], START)
    assert len(state.groups) <= 2000
    assert len(stage.encode(state)) < 600_000


# ---- likeness --------------------------------------------------------------------------------------------------------------

CALLS = ("main", "fit", "train_epoch", "train_step", "forward", "attend", "project")


@pytest.fixture(scope="module")
def frames() -> FrameTable:
    return load_tables().frames


def raised(message: str = "size 4096 does not fit", calls: Sequence[str] = CALLS, file: str = "model.py") -> model.ExceptionInfo:
    lines = [f'  File "{file}", line {number}, in {call}\n    {call}()\n' for number, call in enumerate(calls, 1)]
    text = f"Traceback (most recent call last):\n{''.join(lines)}ValueError: {message}\n"
    return model.ExceptionInfo(type="ValueError", message=message, stacktrace=text)


def alike(number: int, when_h: float = 0, **fields: Any) -> model.Incident:
    """A failure whose fingerprint differs from all others: one frame is new."""
    calls = [*CALLS[:2], f"extra_{number}", *CALLS[2:]]
    return incident(number, when_h, fingerprint=f"f{number}", exception=fields.pop("exception", raised(calls=calls)), **fields)


def unlike(number: int, when_h: float = 0) -> model.Incident:
    calls = [f"{call}_{number}" for call in CALLS]
    text = raised(message=f"reader_{number} lost its shard_{number}", calls=calls, file=f"data_{number}.py")
    return incident(number, when_h, fingerprint=f"f{number}", exception=text)


def passed(frames: FrameTable | None, incidents: Sequence[model.Incident]) -> list[model.History]:
    """Histories, with the state stored and read back after each."""
    stage = Fleet(frames)
    state = stage.new("t/memory")
    found = []
    for one in incidents:
        (out,) = stage.on_batch(state, [one], one.updated_at)
        assert isinstance(out, model.Incident)
        found.append(out.history)
        state = stage.decode(stage.encode(state))
    return found


def test_one_bug_with_another_stack_joins_by_likeness_and_says_so(frames: FrameTable) -> None:
    first, second, third = passed(frames, [alike(1), alike(2, 1), unlike(3, 2)])
    assert (first.group, first.why) == ("f1", "")
    assert (second.group, second.count_24h, second.runs) == ("f1", 2, ["r1"])
    assert second.why.startswith("alike: similarity 0.")
    assert (third.group, third.count_24h, third.why) == ("f3", 1, "")


def test_an_equal_fingerprint_joins_before_likeness(frames: FrameTable) -> None:
    again = incident(4, 2, fingerprint="f2", exception=raised(calls=CALLS[::-1]))
    assert passed(frames, [alike(1), alike(2, 1), again])[-1].why == "same fingerprint"


def test_without_text_only_the_same_symptom_joins(frames: FrameTable) -> None:
    _, second = passed(frames, [incident(1, 0, fingerprint=""), incident(2, 1, fingerprint="")])
    assert (second.group, second.count_24h, second.why) == ("cuda_oom", 2, "same symptom, no text to compare")


def test_likeness_joins_within_one_symptom(frames: FrameTable) -> None:
    other = alike(2, 1)
    other.symptom = "host_oom"
    assert passed(frames, [alike(1), other])[-1].group == "f2"


def test_a_join_is_decided_once(frames: FrameTable) -> None:
    # The second revision of f2 would join f3 by an equal stack; it stays where it was put.
    moved = alike(2, 1, revision=2, recurrences=1, exception=raised(calls=[f"{call}_3" for call in CALLS], file="data_3.py"))
    histories = passed(frames, [alike(1), unlike(3), alike(2, 1), moved])
    assert [one.group for one in histories] == ["f1", "f3", "f1", "f1"]
    assert histories[3].why == histories[2].why
    assert histories[3].count_24h == 3


def test_another_version_of_the_table_does_not_undo_a_join(frames: FrameTable) -> None:
    stage = Fleet(frames)
    state = stage.new("t/memory")
    stage.on_batch(state, [alike(1), alike(2, 1)], START)
    later = Fleet(None)
    state = later.decode(stage.encode(state))
    (out,) = later.on_batch(state, [alike(2, 1, revision=2)], START)
    assert isinstance(out, model.Incident)
    assert out.history.group == "f1"
    (out,) = later.on_batch(state, [alike(2, 2)], START)
    assert isinstance(out, model.Incident)
    assert out.history.group == "f1", "its fingerprint is known to the group by now"


def test_a_provisional_verdict_sees_what_it_is_like_and_leaves_nothing(frames: FrameTable) -> None:
    histories = passed(frames, [alike(1), alike(2, 1, status="provisional"), alike(3, 2, status="provisional"), alike(3, 2, revision=2)])
    assert [(one.group, one.count_24h) for one in histories] == [("f1", 1), ("f1", 2), ("f1", 2), ("f1", 2)]


def test_a_group_that_lost_its_only_member_is_not_joined(frames: FrameTable) -> None:
    gone = alike(1, revision=2, state="resolved", resolved_why="withdrawn: asked to stop")
    assert passed(frames, [alike(1), gone, alike(2, 1)])[-1].group == "f2"


@pytest.mark.parametrize("stack", ["", "Traceback (most recent call last):\n", "\x00" * 1000, "  File " * 50_000])
def test_any_stack_can_be_grouped(frames: FrameTable, stack: str) -> None:
    broken = model.ExceptionInfo(type="", message="", stacktrace=stack)
    assert passed(frames, [alike(1, exception=broken), alike(2, exception=broken)])[-1].count_24h >= 1


def test_memory_of_texts_is_bounded(frames: FrameTable) -> None:
    stage = Fleet(frames)
    state = stage.new("t/memory")
    for number in range(2100):
        stage.on_batch(state, [unlike(number, number / 1000)], START)
    assert len(state.groups) == len(state.kept.known) <= 2000
    assert len(state.groups) > 1800
    assert len(stage.encode(state)) < 10_000_000
