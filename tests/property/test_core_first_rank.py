"""Whatever the other ranks do, and in whatever order it is heard: the rank with the fault of its own is the first."""

from functools import cache

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from firstfault import conventions as names
from firstfault_server.tables import Tables, load_tables
from tests.property.scripts import Arrival, Driver, Script
from tests.property.test_core_order import CASE_COUNT

SYMPTOMS = {"exception": "shape_mismatch", "sigkill": "process_killed", "segfault": "process_crashed", "oom": "host_oom"}


@cache
def tables() -> Tables:
    return load_tables()


def fail(script: Script, kind: str, when: float, rank: int, step: int) -> None:
    """The fault itself."""
    if kind == "exception":
        script.exception(when, rank, "RuntimeError", "shape '[4, 7]' is invalid for input of size 30", step=step)
        script.exit(when + 0.3, rank, "failed", code=1)
    elif kind == "segfault":
        script.exit(when + 0.2, rank, "killed", signal=11)
    else:
        if kind == "oom":
            body = f"Out of memory: Killed process {script.pid(rank)} (python3)"
            script.kernel(when, script.node(rank), names.OOM_KILL, body, VICTIM_PID=script.pid(rank))
        script.exit(when + 0.2, rank, "killed", signal=9)


def react(script: Script, how: str, when: float, delay: float, rank: int, step: int) -> None:
    """What a peer makes of it. Texts may even be stamped before the fault: a peer notices a lost connection first."""
    if how == "cascade":
        script.exception(when + delay, rank, "ConnectionResetError", "[Errno 104] Connection reset by peer", step=step)
        script.exit(when + delay + 0.2, rank, "failed", code=1)
    elif how == "waiting":
        script.exception(when + delay, rank, "RuntimeError", "Timed out waiting 1800000ms for recv operation to complete", step=step)
        script.exit(when + delay + 0.2, rank, "killed", signal=6)
    elif how == "stopped":
        script.exit(when + abs(delay) + 0.7, rank, "cancelled", signal=15)
    else:
        script.beats(when, when + 20, ranks=(rank,))


@pytest.mark.timeout(60 + 5 * CASE_COUNT)
@settings(max_examples=2 * CASE_COUNT, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    kind=st.sampled_from(sorted(SYMPTOMS)),
    peers=st.lists(st.tuples(st.sampled_from(["cascade", "waiting", "stopped", "alive"]), st.floats(-1.5, 3.0)), min_size=1, max_size=7),
    position=st.integers(0, 7),
    nodes=st.integers(1, 3),
    arrival=st.builds(Arrival, jitter_s=st.sampled_from([0.0, 0.3, 1.0]), repeats=st.sampled_from([0.0, 0.5]), seed=st.integers(0, 999)),
)
def test_the_rank_with_its_own_fault_is_first(
    kind: str, peers: list[tuple[str, float]], position: int, nodes: int, arrival: Arrival
) -> None:
    world = len(peers) + 1
    first = position % world
    script = Script(world, nodes=min(nodes, world))
    step = script.train(0, 12)
    others = [rank for rank in range(world) if rank != first]
    fail(script, kind, 12.5, first, step)
    for rank, (how, delay) in zip(others, peers, strict=True):
        react(script, how, 12.5, delay, rank, step)
    outcome = Driver(tables=tables()).play([script], 24, arrival)
    assert outcome.failures == {}
    incident = outcome.only()
    assert (incident.first_fault.rank, incident.first_fault.scope) == (first, "rank"), incident.title
    assert incident.symptom == SYMPTOMS[kind]
    assert (incident.page, incident.first_fault.status, outcome.pages(incident)) == (True, "settled", 1)
    roles = {one.rank: one.role for one in incident.ranks}
    assert [rank for rank, role in roles.items() if role == "initiating"] == [first]
    for rank, (how, _) in zip(others, peers, strict=True):
        allowed = {"cascade": {"cascade"}, "waiting": {"waiting"}, "stopped": {"teardown"}, "alive": {"unknown", "waiting"}}[how]
        assert roles[rank] in allowed, (rank, how, roles)
