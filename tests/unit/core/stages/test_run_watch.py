"""When a process counts as silent or stalled."""

import pytest

from firstfault_server.core.stages.run_state import Member, RunState
from firstfault_server.core.stages.run_watch import look
from firstfault_server.core.thresholds import Thresholds

SECOND = 1_000_000_000


def _state(*, heartbeat_s: int, last_s: int = 100, phase: str = "") -> RunState:
    member = Member(process="p0", rank=0, attempt=1, first_ns=SECOND, received_ns=last_s * SECOND, progress_ns=last_s * SECOND)
    member.heartbeat_ns, member.phase = heartbeat_s * SECOND, phase
    return RunState(tenant="t", run="r", attempt=1, members={"p0": member})


@pytest.mark.parametrize(("heartbeat_s", "stalls_after_s"), [(100, 10), (0, 300)], ids=["ours", "foreign"])
def test_a_sender_without_heartbeats_may_report_as_rarely_as_it_likes(heartbeat_s: int, stalls_after_s: int) -> None:
    """Metric readers of OpenTelemetry export once a minute by default: between two exports nothing hangs."""
    state = _state(heartbeat_s=heartbeat_s)
    look(state, (100 + stalls_after_s) * SECOND, Thresholds())
    assert not state.members["p0"].stalled
    look(state, (100 + stalls_after_s) * SECOND + 1, Thresholds())
    assert state.members["p0"].stalled


def test_a_phase_with_a_budget_of_its_own_keeps_it() -> None:
    state = _state(heartbeat_s=0, phase="compile")
    look(state, 1899 * SECOND, Thresholds())
    assert not state.members["p0"].stalled
