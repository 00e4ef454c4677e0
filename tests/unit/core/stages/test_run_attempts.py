"""Which attempt a process belongs to, and what finding out costs."""

import pytest

from firstfault_server.core.stages.run_attempts import assign
from firstfault_server.core.stages.run_state import Exit, Member, RunState
from firstfault_server.core.thresholds import Thresholds

SECOND = 1_000_000_000


class Asked(Member):
    """A process that counts how often it is asked whether it has ended."""

    times: int = 0

    @property
    def ended(self) -> bool:
        self.times += 1
        return super().ended


def _run(*members: Member, world_size: int | None = None) -> RunState:
    return RunState(tenant="t", run="r", world_size=world_size, members={member.process: member for member in members})


def _member(process: str, rank: int | None, started_s: int, ended_s: int | None = None) -> Member:
    exits = [] if ended_s is None else [Exit(process, ended_s * SECOND, ended_s * SECOND, "failed", 1, None, "excepthook", "")]
    return Member(process=process, rank=rank, started_ns=started_s * SECOND, first_ns=started_s * SECOND, exits=exits)


@pytest.mark.parametrize("ranked", [True, False], ids=["ranks", "processes without ranks"])
def test_a_process_is_asked_as_often_in_a_large_run_without_a_world_size_as_in_a_small_one(ranked: bool) -> None:
    members = [Asked(process=f"p{number}", rank=number if ranked else None, started_ns=number) for number in range(500)]
    state = _run(*members)
    assign(state, SECOND, Thresholds())
    assert {member.attempt for member in members} == {1}
    assert max(member.times for member in members) <= 4


def test_processes_that_come_when_all_have_ended_are_the_next_attempt() -> None:
    first = [_member("a0", 0, 1, 10), _member("a1", 1, 1, 11)]
    then = [_member("b0", 0, 12), _member("b1", 1, 13)]
    assign(_run(*first, *then, world_size=2), 14 * SECOND, Thresholds())
    assert [member.attempt for member in (*first, *then)] == [1, 1, 2, 2]


@pytest.mark.parametrize(
    ("peer_ended_s", "attempt"),
    [(None, 0), (130, 2), (140, 0)],
    ids=["lives", "ended within the window", "ended after it"],
)
def test_a_replaced_process_waits_for_peers_that_are_not_replaced(peer_ended_s: int | None, attempt: int) -> None:
    dead, peer = _member("a0", 0, 1, 10), _member("a1", 1, 1, peer_ended_s)
    successor = _member("b0", 0, 15)
    assign(_run(dead, peer, successor, world_size=2), 16 * SECOND, Thresholds(restart_window_s=120))
    assert (dead.attempt, peer.attempt, successor.attempt) == (1, 1, attempt)


def test_replaced_processes_of_which_no_end_is_known_make_the_next_attempt() -> None:
    first = [_member("a0", 0, 1), _member("a1", 1, 1)]
    then = [_member("b0", 0, 15), _member("b1", 1, 15)]
    assign(_run(*first, *then, world_size=2), 16 * SECOND, Thresholds())
    assert [member.attempt for member in (*first, *then)] == [1, 1, 2, 2]


@pytest.mark.parametrize("ranked", [True, False], ids=["ranks", "processes without ranks"])
def test_processes_that_fall_silent_together_stay_one_attempt(ranked: bool) -> None:
    """Senders that are not ours tell neither the size of the world nor that they end."""
    members = [_member(f"p{number}", number if ranked else None, number) for number in range(8)]
    for member in members:
        member.silent, member.time_ns = True, 500 * SECOND
    state = _run(*members)
    assign(state, 900 * SECOND, Thresholds())
    assert [member.attempt for member in members] == [1] * 8


def test_a_process_that_starts_after_the_last_sign_of_life_is_the_next_attempt() -> None:
    silent, successor = _member("a", None, 1), _member("b", None, 501)
    silent.silent, silent.time_ns = True, 500 * SECOND
    assign(_run(silent, successor), 900 * SECOND, Thresholds())
    assert (silent.attempt, successor.attempt) == (1, 2)
