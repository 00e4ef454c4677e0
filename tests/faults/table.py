"""The faults and what the service must make of each: one table for both training programs."""

from dataclasses import dataclass, field

from firstfault_server.core.model import Role
from firstfault_server.demo.plan import Fault, Plan


@dataclass(frozen=True, kw_only=True)
class Expected:
    """One incident."""

    symptom: str
    rank: int | None
    """First rank; None when the evidence names none."""
    scope: str = "rank"
    roles: dict[int, frozenset[Role]] = field(default_factory=dict)
    """Roles allowed per rank: whether a survivor speaks of its lost peer before the launcher stops it is a race."""
    exception: str = ""
    """Type of the first fault's exception, "" for none."""
    evidence: tuple[tuple[str, str], ...] = ()
    """(kind, part of the text) that must be among the evidence."""
    recurrences: int = 0
    state: str = "open"


@dataclass(frozen=True, kw_only=True)
class Case:
    """A job: one plan per attempt, and the incidents of its run in the order in which they open."""

    name: str
    attempts: tuple[Plan, ...]
    expected: tuple[Expected, ...]
    ranks: int = 2
    grace_s: float = 0.0
    """How long the launcher lets the others go on after a rank failed."""
    kill: str = ""
    """What the test itself does to the job at a step: "oom_kill" or "sigterm"."""
    run_states: frozenset[str] = frozenset({"failed", "killed"})
    """States one of which the run must end in."""
    thresholds: str = "default"
    """Which service it needs: "default", or "hang" with short budgets."""


INITIATING: frozenset[Role] = frozenset({"initiating"})
REACTING: frozenset[Role] = frozenset({"cascade", "teardown"})
WAITING: frozenset[Role] = frozenset({"waiting"})

THRESHOLDS: dict[str, dict[str, float]] = {
    # A machine that is busy with other tests must not look like a hang.
    "default": {"pause_floor_s": 90.0},
    "hang": {"pause_floor_s": 8.0, "hang_confirm_s": 20.0, "hang_confirm_blind_s": 20.0},
}

WRONG_SHAPE = Expected(
    symptom="shape_mismatch",
    rank=1,
    roles={0: REACTING, 1: INITIATING},
    exception="Error",
    evidence=(("exception", "shape"),),
)
KILLED = Expected(symptom="process_killed", rank=1, roles={0: REACTING, 1: INITIATING}, evidence=(("signal", "SIGKILL"),))

CASES: tuple[Case, ...] = (
    Case(name="exception on one rank", attempts=(Plan(fault=Fault.EXCEPTION),), expected=(WRONG_SHAPE,)),
    Case(
        name="exception on one of four ranks",
        ranks=4,
        attempts=(Plan(fault=Fault.EXCEPTION, fault_rank=2),),
        expected=(
            Expected(
                symptom="shape_mismatch",
                rank=2,
                roles={0: REACTING, 1: REACTING, 2: INITIATING, 3: REACTING},
                exception="Error",
                evidence=(("exception", "shape"),),
            ),
        ),
    ),
    Case(name="SIGKILL of one rank", attempts=(Plan(fault=Fault.SIGKILL),), expected=(KILLED,)),
    Case(
        name="hang of one rank",
        ranks=3,
        attempts=(Plan(fault=Fault.HANG, collective_timeout_s=300),),
        expected=(
            Expected(
                symptom="hang", rank=1, roles={0: WAITING, 1: INITIATING, 2: WAITING}, evidence=(("metric", "no progress since step 19"),)
            ),
        ),
        thresholds="hang",
        run_states=frozenset({"cancelled", "failed", "killed"}),
    ),
    Case(
        name="NaN on one rank",
        attempts=(Plan(fault=Fault.NONFINITE),),
        expected=(
            Expected(
                symptom="nonfinite",
                rank=1,
                roles={0: frozenset({"cascade"}), 1: INITIATING},
                evidence=(("metric", "train.loss is NaN since step 20"),),
            ),
        ),
        run_states=frozenset({"finished"}),
    ),
    Case(
        name="oom-kill on the node",
        attempts=(Plan(steps=2000),),
        expected=(
            Expected(
                symptom="host_oom", rank=1, roles={0: REACTING, 1: INITIATING}, evidence=(("node", "out of memory"), ("signal", "SIGKILL"))
            ),
        ),
        kill="oom_kill",
    ),
    Case(
        name="the same wrong setting on all ranks",
        attempts=(Plan(fault=Fault.CONFIG),),
        grace_s=5.0,
        expected=(
            Expected(
                symptom="config_error",
                rank=None,
                scope="all",
                roles={0: INITIATING, 1: INITIATING},
                exception="KeyError",
                evidence=(("exception", "CUDA_VISIBLE_DEVICES"),),
            ),
        ),
    ),
    Case(
        name="a consequence that speaks before its cause",
        attempts=(Plan(fault=Fault.LATE_CAUSE),),
        grace_s=6.0,
        expected=(
            Expected(
                symptom="disk_full",
                rank=1,
                roles={0: frozenset({"cascade"}), 1: INITIATING},
                exception="OSError",
                evidence=(("exception", "No space left"),),
            ),
        ),
    ),
    Case(
        name="the same failure in the next attempt",
        attempts=(Plan(fault=Fault.EXCEPTION), Plan(fault=Fault.EXCEPTION)),
        expected=(
            Expected(
                symptom="shape_mismatch",
                rank=1,
                roles={0: REACTING, 1: INITIATING},
                exception="Error",
                evidence=(("exception", "shape"),),
                recurrences=1,
            ),
        ),
    ),
    Case(
        name="another failure in the next attempt",
        # The second attempt passes the step at which the first one failed, which resolves the first incident.
        attempts=(Plan(fault=Fault.EXCEPTION), Plan(fault=Fault.SIGKILL, fault_step=45)),
        expected=(
            Expected(
                symptom="shape_mismatch",
                rank=1,
                roles={0: REACTING, 1: INITIATING},
                exception="Error",
                evidence=(("exception", "shape"),),
                state="resolved",
            ),
            KILLED,
        ),
    ),
    Case(
        name="SIGTERM to all", attempts=(Plan(steps=2000),), expected=(), kill="sigterm", run_states=frozenset({"cancelled", "preempted"})
    ),
    Case(name="clean finish", attempts=(Plan(),), expected=(), run_states=frozenset({"finished"})),
)
