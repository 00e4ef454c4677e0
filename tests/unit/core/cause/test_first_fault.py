"""The verdict over ranks: what outranks what, and when no single rank may be named."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstfault_server.core.cause.first_fault import decide
from firstfault_server.core.cause.observation import Fault, NodeFact, RankObservation, Verdict

SECOND = 1_000_000_000


def text(symptom: str, when: float, role: Any = "initiating", kind: Any = "exception", **fields: Any) -> Fault:
    named = fields.pop("name", f"{symptom}@{when}")
    values: dict[str, Any] = {"fatal": kind == "exception", "text": symptom, **fields}
    return Fault(id=named, kind=kind, symptom=symptom, role=role, time_ns=round(when * SECOND), received_ns=round(when * SECOND), **values)


def killed(when: float, name: str = "kill") -> Fault:
    return text("process_killed", when, kind="signal", fatal=True, name=name)


def rank(number: int, *faults: Fault, **fields: Any) -> RankObservation:
    values: dict[str, Any] = {"process": f"p{number}", "node": "n0", "ended": bool(faults), "stop_ns": 0, **fields}
    return RankObservation(rank=number, faults=list(faults), **values)


def roles(verdict: Verdict) -> dict[int | None, str]:
    return {one.rank: one.role for one in verdict.roles}


def test_an_own_fault_outranks_reactions_that_spoke_first() -> None:
    verdict = decide(
        [rank(0, text("peer_lost", 1, "cascade")), rank(1, text("cuda_oom", 3)), rank(2, text("collective_timeout", 2, "waiting"))]
    )
    assert (verdict.rank, verdict.scope, verdict.symptom) == (1, "rank", "cuda_oom")
    assert roles(verdict) == {0: "cascade", 1: "initiating", 2: "waiting"}


def test_what_follows_a_reaction_in_the_same_process_is_no_own_fault() -> None:
    """A bare RuntimeError after a collective time-out, then an abort: all the reaction's consequence."""
    waiter = rank(
        0,
        text("collective_timeout", 10, "waiting", kind="log"),
        text("python_error", 11, "unknown"),
        text("process_crashed", 12, kind="signal", fatal=True),
    )
    verdict = decide([waiter, rank(1)])
    assert verdict.rank == 1
    assert roles(verdict)[0] == "waiting"


def test_a_cause_that_the_text_names_counts_even_after_a_reaction() -> None:
    verdict = decide([rank(0, text("peer_lost", 10, "cascade"), text("cuda_oom", 9.5)), rank(1, text("peer_lost", 10.2, "cascade"))])
    assert (verdict.rank, verdict.symptom) == (0, "cuda_oom")


def test_the_same_error_everywhere_names_nobody_but_lists_the_first_to_speak() -> None:
    verdict = decide([rank(number, text("config_error", 5 - number, fingerprint="f")) for number in range(4)])
    assert (verdict.rank, verdict.scope, verdict.candidates) == (None, "all", [3, 2, 1, 0])
    assert set(roles(verdict).values()) == {"initiating"}


def test_the_same_error_on_the_ranks_of_one_node_names_the_node() -> None:
    ranks = [rank(number, text("file_missing", 5, fingerprint="f", name=str(number)), node="n1") for number in (2, 3)]
    ranks += [rank(number, text("peer_lost", 6, "cascade", name=str(number)), node="n0") for number in (0, 1)]
    verdict = decide(ranks)
    assert (verdict.rank, verdict.scope, verdict.node, verdict.candidates) == (None, "node", "n1", [2, 3])


def test_a_clear_lead_names_the_first_of_several_with_the_same_error() -> None:
    ranks = [rank(0, text("cuda_oom", 30, fingerprint="f")), rank(1, text("cuda_oom", 10, fingerprint="f", name="x")), rank(2)]
    assert decide(ranks).rank == 1
    close = [rank(0, text("cuda_oom", 11, fingerprint="f")), rank(1, text("cuda_oom", 10, fingerprint="f", name="x")), rank(2)]
    assert (decide(close).rank, decide(close).scope, decide(close).candidates) == (None, "group", [1, 0])


def exited(when: float, status: str) -> Fault:
    return Fault(id=f"exit@{when}", kind="exit", symptom="unknown", time_ns=round(when * SECOND), text=status, fatal=True)


DEATHS: dict[str, Callable[[float], Fault]] = {
    "exit": lambda when: exited(when, "exit status 1"),
    "signal": lambda when: killed(when, name=f"kill@{when}"),
}


@pytest.mark.parametrize("kind", list(DEATHS))
@pytest.mark.parametrize("after_s", [3.0, 10.0, 300.0])
def test_deaths_without_a_word_are_alike_only_when_they_happen_together(kind: str, after_s: float) -> None:
    apart = decide([rank(0, DEATHS[kind](10 + after_s)), rank(1, DEATHS[kind](10))])
    assert (apart.rank, apart.scope, roles(apart)) == (1, "rank", {0: "teardown", 1: "initiating"})
    together = decide([rank(0, DEATHS[kind](10.4)), rank(1, DEATHS[kind](10))])
    assert (together.rank, together.scope, together.candidates) == (None, "all", [1, 0])


def test_two_exit_statuses_are_two_errors() -> None:
    verdict = decide([rank(0, exited(11.2, "exit status 1")), rank(1, exited(10, "exit status 3"))])
    assert (verdict.rank, verdict.scope, roles(verdict)) == (1, "rank", {0: "teardown", 1: "initiating"})


def test_different_faults_on_one_clock_are_told_apart_by_it() -> None:
    verdict = decide([rank(0, text("cuda_oom", 10.2)), rank(1, text("shape_mismatch", 10.0))])
    assert verdict.rank == 1


def test_different_faults_on_two_clocks_too_close_to_tell_name_both() -> None:
    verdict = decide([rank(0, text("cuda_oom", 10.2), node="a"), rank(1, text("shape_mismatch", 10.0), node="b"), rank(2, node="b")])
    assert (verdict.rank, verdict.scope, verdict.candidates) == (None, "group", [1, 0])


def test_skew_is_corrected_before_clocks_are_compared() -> None:
    ahead = rank(0, text("cuda_oom", 100), node="a", skew_ns=-90 * SECOND)
    verdict = decide([ahead, rank(1, text("shape_mismatch", 20), node="b")])
    assert verdict.rank == 0


def test_hardware_outranks_the_exceptions_of_its_node() -> None:
    fact = NodeFact(id="x", node="n0", kind="xid", symptom="gpu_memory_error", time_ns=12 * SECOND, text="Xid 94", code=94)
    verdict = decide([rank(0, text("cuda_illegal_access", 11)), rank(1, text("peer_lost", 11.5, "cascade"), node="n1")], facts=[fact])
    assert (verdict.rank, verdict.symptom, verdict.fact) == (0, "gpu_memory_error", fact)


def test_hardware_of_an_unknown_process_names_the_node() -> None:
    fact = NodeFact(id="x", node="n0", kind="xid", symptom="gpu_lost", time_ns=12 * SECOND, text="Xid 79")
    verdict = decide([rank(0), rank(1), rank(2, text("peer_lost", 13, "cascade"), node="n1")], facts=[fact])
    assert (verdict.rank, verdict.scope, verdict.node, verdict.candidates) == (None, "node", "n0", [0, 1])


def test_hardware_that_fails_long_after_another_rank_is_not_first() -> None:
    fact = NodeFact(id="x", node="n1", kind="xid", symptom="gpu_lost", time_ns=100 * SECOND, text="Xid 79")
    verdict = decide([rank(0, text("cuda_oom", 10)), rank(1, text("peer_lost", 11, "cascade"), node="n1")], facts=[fact])
    assert (verdict.rank, verdict.symptom) == (0, "cuda_oom")


def test_an_application_xid_never_begins_it() -> None:
    fact = NodeFact(id="x", node="n0", kind="xid", symptom="cuda_illegal_access", initiates=False, time_ns=SECOND, text="Xid 31")
    verdict = decide([rank(0, text("cuda_illegal_access", 11)), rank(1)], facts=[fact])
    assert verdict.fact is None and verdict.rank == 0


@pytest.mark.parametrize("process", ["p1", ""])
def test_an_oom_kill_explains_a_bare_sigkill(process: str) -> None:
    fact = NodeFact(id="x", node="n0", kind="oom_kill", symptom="host_oom", process=process, time_ns=10 * SECOND, text="Killed process")
    verdict = decide([rank(0, text("peer_lost", 10, "cascade")), rank(1, killed(10.5))], facts=[fact])
    assert (verdict.rank, verdict.symptom) == (1, "host_oom")


def test_an_oom_kill_of_somebody_else_explains_nothing() -> None:
    fact = NodeFact(id="x", node="n0", kind="oom_kill", symptom="host_oom", process="other", time_ns=10 * SECOND, text="Killed process")
    verdict = decide([rank(0), rank(1, killed(10.5))], facts=[fact])
    assert (verdict.rank, verdict.symptom) == (1, "process_killed")


def test_a_stop_that_comes_first_explains_everything() -> None:
    stopped = rank(0, stop_ns=10 * SECOND, ended=True, end="cancelled")
    for later in (text("peer_lost", 10.5, "cascade"), text("python_error", 11, "unknown"), text("cuda_oom", 12)):
        assert decide([stopped, rank(1, later)]).stopped
    assert decide([stopped, rank(1, killed(40))]).stopped, "the second half of a stop"


def test_a_stop_that_comes_second_explains_nothing() -> None:
    stopped = rank(0, stop_ns=10 * SECOND, ended=True, end="cancelled")
    verdict = decide([stopped, rank(1, text("cuda_oom", 9))])
    assert (verdict.stopped, verdict.rank, roles(verdict)[0]) == (False, 1, "teardown")
    late_notice = decide([stopped, rank(1, killed(10.4))])
    assert (late_notice.stopped, late_notice.rank) == (False, 1)


def test_a_stop_long_before_is_another_matter() -> None:
    """SIGTERM as a warning, training went on for an hour."""
    warned = rank(0, text("cuda_oom", 3700), stop_ns=100 * SECOND)
    verdict = decide([warned, rank(1)])
    assert (verdict.stopped, verdict.rank) == (False, 0)


def test_an_exception_after_a_stop_of_its_process_is_teardown() -> None:
    torn = rank(0, text("python_error", 11, "unknown"), stop_ns=10 * SECOND)
    verdict = decide([torn, rank(1, text("cuda_oom", 9.5))])
    assert roles(verdict) == {0: "teardown", 1: "initiating"}


def test_the_rank_missing_from_a_collective_is_waited_for() -> None:
    ranks = [
        rank(number, text("collective_timeout", 60, "waiting", name=str(number)), group="world", sequence=8, entered=True)
        for number in (0, 2)
    ]
    ranks.append(rank(1, group="world", sequence=7))
    verdict = decide(ranks)
    assert (verdict.rank, verdict.symptom) == (1, "collective_timeout")
    assert roles(verdict) == {0: "waiting", 1: "initiating", 2: "waiting"}


def test_sequence_numbers_of_different_groups_do_not_compare() -> None:
    """Rank 1 is late in group b because it waits inside group a, in which rank 2 is missing."""
    ranks = [
        rank(0, group="b", sequence=90, entered=True, stalled=True, ended=False),
        rank(1, group="a", sequence=5, entered=True, stalled=True, ended=False),
        rank(2, group="a", sequence=4, stalled=True, ended=False),
    ]
    assert decide(ranks).rank == 2


def test_ranks_named_as_absent_are_waited_for() -> None:
    ranks = [rank(number, text("collective_timeout", 60, "waiting", kind="log", missing=[3], name=str(number))) for number in (0, 1)]
    assert decide([*ranks, rank(2), rank(3)]).rank == 3


def test_the_rank_behind_in_steps_is_waited_for() -> None:
    ranks = [rank(number, step=41, stalled=True, ended=False) for number in (0, 2)]
    verdict = decide([*ranks, rank(1, step=40, stalled=True, ended=False)])
    assert (verdict.rank, verdict.symptom) == (1, "hang")


def test_steps_of_different_stages_do_not_compare() -> None:
    ranks = [rank(number, step=41 - number // 2, stage=f"s{number // 2}", stalled=True, ended=False) for number in range(4)]
    verdict = decide(ranks)
    assert (verdict.rank, verdict.scope) == (None, "all")


def test_the_only_rank_that_does_not_wait_is_waited_for() -> None:
    ranks = [rank(number, text("collective_timeout", 60, "waiting", name=str(number))) for number in (0, 2, 3)]
    assert decide([*ranks, rank(1, stop_ns=70 * SECOND, ended=True, end="cancelled")]).rank == 1


def test_everybody_waits_and_nothing_tells_them_apart() -> None:
    verdict = decide([rank(number, text("collective_timeout", 60 - number, "waiting", name=str(number))) for number in range(3)])
    assert (verdict.rank, verdict.scope, verdict.candidates, verdict.certain) == (None, "all", [2, 1, 0], False)


def test_ranks_never_seen_hold_the_others_up() -> None:
    ranks = [rank(number, text("rendezvous_failed", 600, "waiting", name=str(number))) for number in range(3)]
    assert decide([*ranks, RankObservation(rank=3, never_seen=True)]).rank == 3


def test_death_without_a_record_is_said_to_be_that() -> None:
    gone = text("process_killed", 10, "unknown", kind="silence", fatal=True)
    verdict = decide([rank(0, gone, silent=True, ended=False), rank(1, text("peer_lost", 12, "cascade"))])
    assert (verdict.rank, verdict.symptom) == (0, "process_killed")
    assert verdict.not_seen


def test_a_process_without_rank_can_be_first() -> None:
    actor = RankObservation(rank=None, process="actor-7", node="n0", faults=[text("cuda_oom", 5)], ended=True)
    verdict = decide([actor, rank(0, text("peer_lost", 6, "cascade"))])
    assert (verdict.rank, verdict.process, verdict.scope) == (None, "actor-7", "rank")


FAULTS = st.one_of(
    st.builds(lambda when, role: text("peer_lost", when, role), st.floats(1, 9), st.sampled_from(["cascade", "waiting"])),
    st.builds(lambda when, symptom: text(symptom, when), st.floats(1, 9), st.sampled_from(["cuda_oom", "shape_mismatch", "config_error"])),
    st.builds(killed, st.floats(1, 9)),
)


@given(st.lists(st.tuples(st.lists(FAULTS, max_size=3), st.integers(0, 9), st.booleans()), min_size=1, max_size=5), st.randoms())
def test_the_order_of_the_observations_does_not_matter(rows: list[tuple[list[Fault], int, bool]], chance: Any) -> None:
    ranks: list[RankObservation] = []
    names = itertools.count()
    for number, (faults, stop, stalled) in enumerate(rows):
        own = [text(f.symptom, f.time_ns / SECOND, f.role, f.kind, name=str(next(names)), fatal=True) for f in faults]
        ranks.append(rank(number, *own, stop_ns=stop * SECOND, stalled=stalled, node=f"n{number % 2}"))
    if not any(one.faults or one.stalled or one.stop_ns for one in ranks):
        return
    verdict = decide(ranks)
    shuffled = list(ranks)
    chance.shuffle(shuffled)
    for one in shuffled:
        chance.shuffle(one.faults)
    assert decide(shuffled) == verdict
    assert len(verdict.roles) == len(ranks)
    initiating = {one.rank for one in verdict.roles if one.role == "initiating"}
    if verdict.rank is not None:
        assert initiating == {verdict.rank}
