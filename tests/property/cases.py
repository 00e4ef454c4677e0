"""What must be said about each scripted failure."""

from collections.abc import Callable

import msgspec

from tests.property import faults
from tests.property.scripts import Script


class Expected(msgspec.Struct, kw_only=True):
    """What the one incident must say; None as symptom: there must be none."""

    symptom: str | None
    rank: int | None = None
    scope: str = "rank"
    roles: dict[int, str] = {}
    page: bool = True
    state: str = "open"
    candidates: list[int] | None = None
    node: str | None = None
    recurrences: int = 0


class Case(msgspec.Struct, kw_only=True):
    """A script, how long to watch, and what must come of it."""

    name: str
    build: Callable[[], Script]
    until: float
    expected: list[Expected]
    run_state: str = "failed"


CASES = [
    Case(
        name="exception",
        build=faults.exception_on_one_rank,
        until=60,
        expected=[Expected(symptom="python_error", rank=1, roles={0: "cascade", 1: "initiating", 2: "teardown"})],
    ),
    Case(
        name="sigkill",
        build=faults.sigkill_of_one_rank,
        until=60,
        expected=[Expected(symptom="process_killed", rank=1, roles={0: "cascade", 1: "initiating"})],
    ),
    Case(
        name="sigkill and launcher stop",
        build=faults.sigkill_and_launcher_stop,
        until=60,
        run_state="killed",
        expected=[Expected(symptom="process_killed", rank=1, roles={0: "teardown", 1: "initiating"})],
    ),
    Case(
        name="segfault",
        build=faults.segfault,
        until=60,
        expected=[Expected(symptom="process_crashed", rank=0, roles={0: "initiating", 1: "cascade"})],
    ),
    Case(
        name="oom kill",
        build=faults.oom_kill,
        until=60,
        expected=[Expected(symptom="host_oom", rank=1, roles={0: "cascade", 1: "initiating"}, node="node-0")],
    ),
    Case(
        name="hang by time",
        build=faults.hang_confirmed_by_time,
        until=215,
        run_state="running",
        expected=[Expected(symptom="hang", rank=1, roles={0: "waiting", 1: "initiating"})],
    ),
    Case(
        name="hang by text",
        build=faults.hang_confirmed_by_text,
        until=95,
        run_state="running",
        expected=[Expected(symptom="hang", rank=1, roles={0: "waiting", 1: "initiating", 2: "waiting"})],
    ),
    Case(
        name="hang by collective state",
        build=faults.hang_by_collective_state,
        until=690,
        run_state="running",
        expected=[Expected(symptom="hang", rank=3, roles={0: "waiting", 3: "initiating"})],
    ),
    Case(
        name="hang then cancelled",
        build=faults.hang_then_cancelled,
        until=110,
        run_state="cancelled",
        expected=[Expected(symptom="hang", rank=1, roles={0: "waiting", 1: "initiating", 2: "waiting"})],
    ),
    Case(
        name="suspected hang then cancelled",
        build=faults.suspected_hang_then_cancelled,
        until=90,
        run_state="cancelled",
        expected=[Expected(symptom="hang", scope="all", page=False, state="resolved")],
    ),
    Case(
        name="nan on one rank",
        build=faults.nan_on_one_rank,
        until=60,
        run_state="running",
        expected=[Expected(symptom="nonfinite", rank=1, roles={0: "cascade", 1: "initiating", 2: "cascade"})],
    ),
    Case(
        name="nan everywhere",
        build=faults.nan_everywhere_at_once,
        until=60,
        run_state="running",
        expected=[Expected(symptom="nonfinite", rank=None, scope="all", candidates=[0, 1])],
    ),
    Case(
        name="nan that recovers",
        build=faults.nan_that_recovers,
        until=140,
        run_state="running",
        expected=[Expected(symptom="nonfinite", rank=0, state="resolved")],
    ),
    Case(
        name="config error",
        build=faults.config_error_everywhere,
        until=30,
        expected=[Expected(symptom="python_error", rank=None, scope="all", candidates=[2, 0, 3, 1])],
    ),
    Case(
        name="cascade first",
        build=faults.cascade_before_its_cause,
        until=60,
        expected=[Expected(symptom="shape_mismatch", rank=1, roles={0: "cascade", 1: "initiating"})],
    ),
    Case(
        name="same failure again",
        build=faults.same_failure_again,
        until=70,
        expected=[Expected(symptom="python_error", rank=1, recurrences=1)],
    ),
    Case(
        name="another failure next",
        build=faults.another_failure_next,
        until=70,
        expected=[Expected(symptom="python_error", rank=1), Expected(symptom="python_error", rank=1)],
    ),
    Case(
        name="failure then success",
        build=faults.failure_then_success,
        until=90,
        run_state="finished",
        expected=[Expected(symptom="python_error", rank=1, state="resolved")],
    ),
    Case(name="sigterm to all", build=faults.sigterm_to_all, until=80, run_state="killed", expected=[]),
    Case(name="interrupt", build=faults.interrupted_by_user, until=80, run_state="cancelled", expected=[]),
    Case(name="preempted", build=faults.preempted, until=80, run_state="preempted", expected=[]),
    Case(name="clean finish", build=faults.clean_finish, until=80, run_state="finished", expected=[]),
    Case(
        name="silent rank",
        build=faults.one_rank_goes_silent,
        until=80,
        run_state="running",
        expected=[Expected(symptom="process_killed", rank=3, roles={3: "initiating"}, node="node-1")],
    ),
    Case(
        name="silent node",
        build=faults.node_goes_silent,
        until=80,
        run_state="running",
        expected=[Expected(symptom="node_failure", rank=None, scope="node", candidates=[2, 3], node="node-1")],
    ),
    Case(
        name="silent run",
        build=faults.everything_goes_silent,
        until=140,
        run_state="unreachable",
        expected=[Expected(symptom="telemetry_lost", rank=None, scope="all", candidates=[0, 1, 2, 3])],
    ),
    Case(
        name="xid",
        build=faults.xid_on_a_node,
        until=60,
        expected=[Expected(symptom="gpu_lost", rank=3, roles={0: "cascade", 3: "initiating"}, node="node-1")],
    ),
    Case(
        name="application xid",
        build=faults.application_xid,
        until=60,
        expected=[Expected(symptom="cuda_illegal_access", rank=1, roles={0: "cascade", 1: "initiating"})],
    ),
    Case(name="captured exception", build=faults.captured_exception_only, until=80, run_state="finished", expected=[]),
    Case(
        name="bare exit",
        build=faults.bare_exit_status,
        until=48.5,
        run_state="running",
        expected=[Expected(symptom="unknown", rank=1, roles={1: "initiating"})],
    ),
    Case(
        name="suspected hang",
        build=faults.suspected_hang_that_recovers,
        until=120,
        run_state="finished",
        expected=[Expected(symptom="hang", rank=None, scope="all", page=False, state="resolved")],
    ),
    Case(name="declared pause", build=faults.declared_pause, until=110, run_state="finished", expected=[]),
]
