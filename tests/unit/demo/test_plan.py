"""A plan survives the command line of the training program."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstfault_server.demo.plan import Fault, Plan, parse

plans = st.builds(
    Plan,
    fault=st.sampled_from(Fault),
    fault_rank=st.integers(0, 7),
    fault_step=st.integers(0, 100),
    steps=st.integers(1, 10_000),
    step_s=st.floats(0, 10),
    collective_timeout_s=st.floats(0.1, 1000),
)


@given(plans)
def test_arguments_are_read_back(plan: Plan) -> None:
    assert parse(plan.arguments()) == plan


@given(plans, st.integers(0, 7), st.integers(0, 100), st.sampled_from(Fault))
def test_strikes_once_in_one_way(plan: Plan, rank: int, step: int, fault: Fault) -> None:
    assert plan.strikes(fault, rank, step) == ((fault, rank, step) == (plan.fault, plan.fault_rank, plan.fault_step))


def test_refuses_a_fault_it_does_not_know(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        parse(["--fault=meteorite"])
    assert refused.value.code == 2
    assert "meteorite" in capsys.readouterr().err
