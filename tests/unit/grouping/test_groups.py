"""Grouping and similarity: one bug one group, two bugs two, whatever the order, however many there are."""

import random
import time

import msgspec
import pytest

from firstfault.stack import frame
from firstfault_server.core.grouping.groups import Failure, Group, Groups, Told, alike, failure_of
from firstfault_server.core.grouping.similarity import FrameTable, similarity, trace_of
from firstfault_server.tables import load_tables

TABLE = load_tables().frames
LIBRARY = "/opt/lib/python3.11/site-packages/"


def told(kind: str, message: str, *places: str) -> Told:
    """`own:f` is a function of one's own file, `torch/nn/x:f` one of a package."""
    frames = []
    for place in places:
        file, function = place.split(":")
        frames.append(frame(f"{LIBRARY}{file}.py" if "/" in file else f"/w/{file}.py", function, 1))
    return Told(type=kind, message=message, frames=frames)


def failure(symptom: str, *args: str) -> Failure:
    return failure_of(TABLE, symptom, told(*args))


def test_equal_own_frames_join_whatever_the_message() -> None:
    groups = Groups()
    one = groups.join(failure("python_error", "ValueError", "a", "train:main", "model:forward", "torch/nn/x:call"))
    two = groups.join(failure("python_error", "ValueError", "b", "train:main", "model:forward", "torch/nn/y:apply"))
    assert one.new
    assert (two.group, two.why, two.new) == (one.group, "same in-app frames", False)


def test_another_symptom_is_another_bug_even_with_equal_frames() -> None:
    groups = Groups()
    killed = groups.join(failure("host_oom", "RuntimeError", "worker killed", "train:main"))
    crashed = groups.join(failure("process_crashed", "RuntimeError", "worker segfault", "train:main"))
    assert killed.group != crashed.group


def test_the_same_library_error_from_two_programs_joins_by_likeness() -> None:
    groups = Groups()
    deep = ("zoo/runtime/engine:step", "zoo/runtime/optimizer:step", "zoo/runtime/scale:update")
    one = groups.join(failure("loss_scale_collapse", "Exception", "scale is at its minimum", "train:main", *deep))
    two = groups.join(failure("loss_scale_collapse", "Exception", "scale is at its minimum", "finetune:run", *deep))
    assert two.group == one.group
    assert two.why.startswith("alike")


def test_texts_without_frames_join_by_their_parameterised_message() -> None:
    groups = Groups()
    one = groups.join(failure("collective_timeout", "nccl-watchdog", "rank 3 waited 600 ms at 0x7f"))
    assert groups.join(failure("collective_timeout", "nccl-watchdog", "rank 9 waited 123 ms at 0x9a")).group == one.group
    assert groups.join(failure("collective_timeout", "nccl-watchdog", "store is gone")).group != one.group


def test_a_join_is_never_undone() -> None:
    groups = Groups()
    chance = random.Random(3)
    pool = [failure("python_error", "ValueError", f"m{i}", f"a{i % 7}:f", f"b{i % 5}:g", f"pkg/m{i % 3}:h") for i in range(60)]
    first = {id(one): groups.join(one).group for one in pool}
    for one in chance.sample(pool, len(pool)):
        assert groups.join(one).group == first[id(one)]


def test_what_is_kept_recognises_the_same_after_a_restart() -> None:
    groups = Groups()
    pool = [failure("python_error", "ValueError", f"m{i}", f"a{i % 7}:f", f"pkg/m{i % 3}:h", f"pkg/n{i}:k") for i in range(40)]
    before = [groups.join(one).group for one in pool]
    stored = msgspec.msgpack.decode(msgspec.msgpack.encode(groups.kept()), type=list[Group])
    again = Groups(stored)
    assert [again.join(one).group for one in pool] == before
    assert not any(again.join(one).new for one in pool)


def test_similarity_is_symmetric_bounded_and_one_for_itself() -> None:
    chance = random.Random(5)
    names = [f"p/{a}:{b}" for a in "abc" for b in "fgh"]
    traces = [
        trace_of(
            TABLE,
            chance.choice(("A", "B", "")),
            " ".join(chance.sample(("x", "y", "z", "9"), 2)),
            told("A", "", *chance.sample(names, 4)).frames,
        )
        for _ in range(40)
    ]
    for one in traces:
        assert similarity(one, one) == 1
        for two in traces:
            assert similarity(one, two) == pytest.approx(similarity(two, one))
            value = similarity(one, two)
            assert 0 <= value <= 1
            bounded = similarity(one, two, at_least=0.5)
            assert bounded == pytest.approx(value) if value >= 0.5 else bounded < 0.5


def test_rare_frames_weigh_more_than_plumbing() -> None:
    table = FrameTable(version=1, documents=100, frames={"plumbing.run:call": 90, "plumbing.loop:next": 80})
    base = trace_of(table, "E", "m", told("E", "m", "plumbing/run:call", "plumbing/loop:next", "rare/bug:here").frames)
    shares_plumbing = trace_of(table, "E", "n", told("E", "n", "plumbing/run:call", "plumbing/loop:next", "other/bug:there").frames)
    shares_bug = trace_of(table, "E", "n", told("E", "n", "another/run:go", "rare/bug:here").frames)
    assert similarity(base, shares_bug) > similarity(base, shares_plumbing)


def test_two_texts_are_as_alike_as_their_most_alike_exceptions() -> None:
    shared = told("KeyError", "'a'", "lib/x:f", "lib/y:g")
    one = failure_of(TABLE, "python_error", told("RuntimeError", "outer", "one:main"), [shared])
    two = failure_of(TABLE, "python_error", told("TypeError", "other", "two:main"), [shared])
    three = failure_of(TABLE, "python_error", told("TypeError", "other", "two:main"))
    assert alike(one, two) > alike(one, three)


def test_the_cost_of_a_join_does_not_grow_with_the_groups() -> None:
    groups = Groups()
    chance = random.Random(11)

    def some(number: int) -> Failure:
        places = [f"pkg{chance.randrange(40)}/m{chance.randrange(60)}:f{chance.randrange(40)}" for _ in range(12)]
        return failure("python_error", "ValueError", f"word{number} went wrong in part {chance.randrange(900)}", *places)

    known = [some(number) for number in range(1500)]
    began = time.process_time()
    for one in known[:200]:
        groups.join(one)
    early = time.process_time() - began
    for one in known[200:-200]:
        groups.join(one)
    began = time.process_time()
    for one in known[-200:]:
        groups.join(one)
    late = time.process_time() - began
    assert len(groups) > 1000
    assert late < 8 * early + 0.5
