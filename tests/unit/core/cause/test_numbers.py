"""Where NaN began: the rank whose own loss went first, or nobody when nothing tells."""

from firstfault.conventions import GRAD_NORM, LOSS
from firstfault_server.core.cause.numbers import NumberSeen, first_number

SECOND = 1_000_000_000


def seen(rank: int, *starts: tuple[int, str, int], reports: bool = True) -> NumberSeen:
    return NumberSeen(process=f"p{rank}", rank=rank, starts=list(starts), reports=reports, text="train.loss is NaN")


def test_the_lowest_step_names_the_rank() -> None:
    verdict = first_number("nonfinite", [seen(0, (31, LOSS, 5)), seen(1, (30, LOSS, 9)), seen(2)])
    assert (verdict.rank, verdict.scope) == (1, "rank")
    assert {one.rank: one.role for one in verdict.roles} == {0: "cascade", 1: "initiating", 2: "unknown"}


def test_within_a_step_the_own_loss_precedes_gradients_that_are_reduced_over_all() -> None:
    verdict = first_number("nonfinite", [seen(0, (31, LOSS, 5), (30, GRAD_NORM, 5)), seen(1, (30, LOSS, 9), (30, GRAD_NORM, 9))])
    assert verdict.rank == 1


def test_ranks_of_one_step_are_not_told_apart_by_their_clocks() -> None:
    verdict = first_number("nonfinite", [seen(0, (30, LOSS, 5)), seen(1, (30, LOSS, 9)), seen(2, (31, LOSS, 1))])
    assert (verdict.rank, verdict.scope, verdict.candidates) == (None, "group", [0, 1])


def test_all_at_once_is_everybody() -> None:
    assert first_number("nonfinite", [seen(0, (30, LOSS, 5)), seen(1, (30, LOSS, 9))]).scope == "all"


def test_a_single_reporter_among_silent_peers_proves_nothing() -> None:
    verdict = first_number("nonfinite", [seen(0, (30, LOSS, 5)), seen(1, reports=False)])
    assert (verdict.rank, verdict.candidates) == (None, [0])
    assert "only one rank reports" in verdict.why


def test_a_run_of_one_rank_is_that_rank() -> None:
    assert first_number("nonfinite", [seen(0, (30, LOSS, 5))]).rank == 0


def test_without_steps_only_a_clear_lead_in_time_counts() -> None:
    assert first_number("nonfinite", [seen(0, (-1, LOSS, 5 * SECOND)), seen(1, (-1, LOSS, 9 * SECOND))]).rank == 0
    assert first_number("nonfinite", [seen(0, (-1, LOSS, 50)), seen(1, (-1, LOSS, 90))]).rank is None
