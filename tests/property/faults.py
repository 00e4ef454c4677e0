"""The failures a training job can have, as scripts, with what must be said about each."""

from collections.abc import Callable

import msgspec

from firstfault import conventions as names
from tests.property.scripts import Script

LAUNCHER_STOP = 15


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


def _peer_dies(script: Script, when: float, rank: int, step: int) -> None:
    """A rank that loses its peer: exception, then exit."""
    script.exception(when, rank, "ConnectionResetError", "[Errno 104] Connection reset by peer", function="all_reduce", step=step)
    script.exit(when + 0.2, rank, "failed", code=1)


def exception_on_one_rank() -> Script:
    script = Script(3)
    step = script.train(0, 40)
    script.exception(40.1, 1, "ValueError", "bad sample 17", step=step)
    script.exit(40.3, 1, "failed", code=1)
    _peer_dies(script, 40.4, 0, step)
    script.exit(40.9, 2, "killed", signal=LAUNCHER_STOP)
    return script


def sigkill_of_one_rank() -> Script:
    script = Script(2)
    step = script.train(0, 40)
    script.exit(41.5, 1, "killed", signal=9)
    _peer_dies(script, 40.3, 0, step)
    return script


def sigkill_and_launcher_stop() -> Script:
    """The launcher stops the others before the sidecar has noticed the death."""
    script = Script(2)
    script.train(0, 40)
    script.exit(40.5, 0, "killed", signal=LAUNCHER_STOP, source="signal_handler")
    script.exit(40.6, 0, "killed", signal=LAUNCHER_STOP)
    script.exit(41.9, 1, "killed", signal=9)
    return script


def segfault() -> Script:
    script = Script(2)
    step = script.train(0, 40)
    script.exit(40.5, 0, "killed", signal=11)
    _peer_dies(script, 40.7, 1, step)
    return script


def oom_kill() -> Script:
    script = Script(2)
    step = script.train(0, 40)
    pid = script.pid(1)
    line = f"Out of memory: Killed process {pid} (python3) total-vm:64829312kB, anon-rss:31532344kB"
    script.kernel(40.2, script.node(1), names.OOM_KILL, line, VICTIM_PID=pid, VICTIM_NAME="python3")
    script.exit(40.6, 1, "killed", signal=9)
    _peer_dies(script, 40.4, 0, step)
    return script


def hang_confirmed_by_time() -> Script:
    """One rank stays behind; the others have logged one step more and wait. A pause of 15 s was survived before."""
    script = Script(2)
    step = script.train(0, 40)
    script.beats(40, 55)
    step = script.train(55, 90, first_step=step)
    script.step(90, 0, step)
    script.beats(90, 220)
    return script


def hang_confirmed_by_text() -> Script:
    script = Script(3)
    step = script.train(0, 40)
    script.step(40, 0, step)
    script.step(40, 2, step)
    script.beats(40, 100)
    for rank in (0, 2):
        script.log(
            70 + rank,
            rank,
            names.LOG,
            sender="sidecar",
            severity=17,
            body=f"[rank{rank}]:[E1129 18:00:00.000 ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog caught collective operation timeout: "
            "WorkNCCL(SeqNum=41, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600001 milliseconds "
            "before timing out.",
        )
    return script


def hang_by_collective_state() -> Script:
    """All ranks logged the same step; the sequence numbers tell them apart."""
    script = Script(4)
    step = script.train(0, 40)
    for rank in range(4):
        script.log(39.5, rank, names.COLLECTIVE, COLLECTIVE_GROUP="world", COLLECTIVE_SEQ=step - 1, COLLECTIVE_STATE="completed")
        if rank != 3:
            script.log(40.5, rank, names.COLLECTIVE, COLLECTIVE_GROUP="world", COLLECTIVE_SEQ=step, COLLECTIVE_STATE="entered")
    script.beats(40, 700)
    return script


def hang_then_cancelled() -> Script:
    """People cancel a job whose hang was confirmed: it still hung."""
    script = hang_confirmed_by_text()
    script.sent = [(when, batch) for when, batch in script.sent if when < 90]
    for rank in range(3):
        script.exit(90.5 + 0.1 * rank, rank, "cancelled", signal=LAUNCHER_STOP)
    return script


def suspected_hang_then_cancelled() -> Script:
    script = Script(2)
    script.train(0, 40)
    script.beats(40, 70)
    for rank in range(2):
        script.exit(70.5, rank, "cancelled", signal=LAUNCHER_STOP)
    return script


def nan_on_one_rank() -> Script:
    """Rank 1's loss goes first; the gradients it spreads reach the others one step later."""
    script = Script(3)
    nan = float("nan")
    script.train(0, 60, loss=lambda rank, step: nan if step >= 30 + (rank != 1) else 2.0)
    return script


def nan_everywhere_at_once() -> Script:
    script = Script(2)
    script.train(0, 60, loss=lambda rank, step: float("nan") if step >= 30 else 2.0)
    return script


def nan_that_recovers() -> Script:
    script = Script(2)
    script.train(0, 140, loss=lambda rank, step: float("inf") if 30 <= step < 40 and rank == 0 else 2.0)
    return script


def config_error_everywhere() -> Script:
    script = Script(4, nodes=2)
    script.beats(0, 2)
    for rank in (2, 0, 3, 1):
        when = 2.0 + 0.1 * [2, 0, 3, 1].index(rank)
        script.exception(when, rank, "KeyError", "'learning_rate'", function="load_config")
        script.exit(when + 0.2, rank, "failed", code=1)
    return script


def cascade_before_its_cause() -> Script:
    """Rank 0 says that its peer is gone two seconds before the peer's own exception is sent."""
    script = Script(2)
    step = script.train(0, 40)
    _peer_dies(script, 40.0, 0, step)
    script.beat(41.0, 1)
    script.exception(42.0, 1, "RuntimeError", "shape '[4, 7]' is invalid for input of size 30", step=step)
    script.exit(42.2, 1, "failed", code=1)
    return script


def _attempt_fails(script: Script, start: float, step: int, kind: str, message: str) -> None:
    last = script.train(start, start + 20, first_step=step)
    script.exception(start + 20.1, 1, kind, message, step=last)
    script.exit(start + 20.3, 1, "failed", code=1)
    _peer_dies(script, start + 20.4, 0, last)


def same_failure_again() -> Script:
    script = Script(2)
    _attempt_fails(script, 0, 1, "ValueError", "bad sample 17")
    script.restart(30)
    _attempt_fails(script, 30, 1, "ValueError", "bad sample 17")
    return script


def another_failure_next() -> Script:
    script = Script(2)
    _attempt_fails(script, 0, 1, "ValueError", "bad sample 17")
    script.restart(30)
    _attempt_fails(script, 30, 1, "KeyError", "'labels'")
    return script


def failure_then_success() -> Script:
    script = Script(2)
    _attempt_fails(script, 0, 1, "ValueError", "bad sample 17")
    script.restart(30)
    script.train(30, 70, first_step=10)
    for rank in range(2):
        script.exit(70.2, rank, "finished", code=0, source="atexit")
    return script


def sigterm_to_all() -> Script:
    script = Script(3)
    step = script.train(0, 40)
    for rank in range(3):
        script.exit(40.1 + 0.1 * rank, rank, "killed", signal=LAUNCHER_STOP, source="signal_handler")
        script.exit(40.6 + 0.1 * rank, rank, "killed", signal=LAUNCHER_STOP)
    script.exception(40.35, 1, "RuntimeError", "DataLoader worker (pid 7) exited unexpectedly", step=step)
    return script


def interrupted_by_user() -> Script:
    script = Script(2)
    step = script.train(0, 40)
    for rank in range(2):
        script.exception(40.1 + 0.1 * rank, rank, "KeyboardInterrupt", "", step=step)
        script.exit(40.5, rank, "failed", code=130)
    return script


def preempted() -> Script:
    script = Script(2)
    script.train(0, 40)
    for rank in range(2):
        script.exit(40.1, rank, "preempted", signal=LAUNCHER_STOP, source="signal_handler")
        script.exit(41.1, rank, "killed", signal=LAUNCHER_STOP)
    return script


def clean_finish() -> Script:
    script = Script(2)
    script.train(0, 40)
    for rank in range(2):
        script.exit(40.1 + rank * 0.1, rank, "finished", code=0, source="atexit")
        script.exit(40.6, rank, "finished", code=0)
    return script


def one_rank_goes_silent() -> Script:
    """No exit record: process and sidecar vanish together; the rest of the node lives."""
    script = Script(4, nodes=2)
    script.train(0, 40)
    script.beats(40, 80, ranks=(0, 1, 2))
    return script


def node_goes_silent() -> Script:
    script = Script(4, nodes=2)
    script.train(0, 40)
    script.beats(40, 80, ranks=(0, 1))
    return script


def everything_goes_silent() -> Script:
    script = Script(4, nodes=2)
    script.train(0, 40)
    return script


def xid_on_a_node() -> Script:
    script = Script(4, nodes=2)
    step = script.train(0, 40)
    script.kernel(
        40.2,
        "node-1",
        names.XID,
        "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
        XID_CODE=79,
    )
    script.exception(40.0, 3, "RuntimeError", "CUDA error: unspecified launch failure", step=step)
    script.exit(40.4, 3, "failed", code=1)
    for rank in (0, 1, 2):
        _peer_dies(script, 40.6, rank, step)
    return script


def application_xid() -> Script:
    """Xid 31 follows the process's own illegal access: the exception stays the first fault."""
    script = Script(2)
    step = script.train(0, 40)
    script.kernel(
        40.0, "node-0", names.XID, "NVRM: Xid (PCI:0000:3b:00): 31, pid=1001, name=python3, MMU Fault: ENGINE GRAPHICS", XID_CODE=31
    )
    script.exception(40.1, 1, "RuntimeError", "CUDA error: an illegal memory access was encountered", step=step)
    script.exit(40.4, 1, "failed", code=1)
    _peer_dies(script, 40.6, 0, step)
    return script


def captured_exception_only() -> Script:
    """A handled exception is evidence, not a failure."""
    script = Script(2)
    step = script.train(0, 40)
    script.exception(40.1, 1, "TimeoutError", "metrics endpoint", fatal=False, step=step)
    script.train(41, 60, first_step=step)
    for rank in range(2):
        script.exit(60.5, rank, "finished", code=0)
    return script


def bare_exit_status() -> Script:
    script = Script(2)
    script.train(0, 40)
    script.exit(40.3, 1, "failed", code=3)
    script.beats(40, 60, ranks=(0,))
    return script


def suspected_hang_that_recovers() -> Script:
    script = Script(2)
    step = script.train(0, 40)
    script.beats(40, 70)
    script.train(70, 100, first_step=step)
    for rank in range(2):
        script.exit(100.5, rank, "finished", code=0)
    return script


def declared_pause() -> Script:
    """A checkpoint of 25 s with its own budget is no hang."""
    script = Script(2)
    step = script.train(0, 40)
    for rank in range(2):
        script.log(40, rank, names.PHASE, PHASE_NAME="checkpoint", PHASE_STATE="begin")
        script.log(65, rank, names.PHASE, PHASE_NAME="checkpoint", PHASE_STATE="end")
    script.beats(40, 66)
    script.train(66, 90, first_step=step)
    for rank in range(2):
        script.exit(90.5, rank, "finished", code=0)
    return script


CASES = [
    Case(
        name="exception",
        build=exception_on_one_rank,
        until=60,
        expected=[Expected(symptom="python_error", rank=1, roles={0: "cascade", 1: "initiating", 2: "teardown"})],
    ),
    Case(
        name="sigkill",
        build=sigkill_of_one_rank,
        until=60,
        expected=[Expected(symptom="process_killed", rank=1, roles={0: "cascade", 1: "initiating"})],
    ),
    Case(
        name="sigkill and launcher stop",
        build=sigkill_and_launcher_stop,
        until=60,
        run_state="killed",
        expected=[Expected(symptom="process_killed", rank=1, roles={0: "teardown", 1: "initiating"})],
    ),
    Case(
        name="segfault",
        build=segfault,
        until=60,
        expected=[Expected(symptom="process_crashed", rank=0, roles={0: "initiating", 1: "cascade"})],
    ),
    Case(
        name="oom kill",
        build=oom_kill,
        until=60,
        expected=[Expected(symptom="host_oom", rank=1, roles={0: "cascade", 1: "initiating"}, node="node-0")],
    ),
    Case(
        name="hang by time",
        build=hang_confirmed_by_time,
        until=215,
        run_state="running",
        expected=[Expected(symptom="hang", rank=1, roles={0: "waiting", 1: "initiating"})],
    ),
    Case(
        name="hang by text",
        build=hang_confirmed_by_text,
        until=95,
        run_state="running",
        expected=[Expected(symptom="hang", rank=1, roles={0: "waiting", 1: "initiating", 2: "waiting"})],
    ),
    Case(
        name="hang by collective state",
        build=hang_by_collective_state,
        until=690,
        run_state="running",
        expected=[Expected(symptom="hang", rank=3, roles={0: "waiting", 3: "initiating"})],
    ),
    Case(
        name="hang then cancelled",
        build=hang_then_cancelled,
        until=110,
        run_state="cancelled",
        expected=[Expected(symptom="hang", rank=1, roles={0: "waiting", 1: "initiating", 2: "waiting"})],
    ),
    Case(
        name="suspected hang then cancelled",
        build=suspected_hang_then_cancelled,
        until=90,
        run_state="cancelled",
        expected=[Expected(symptom="hang", scope="all", page=False, state="resolved")],
    ),
    Case(
        name="nan on one rank",
        build=nan_on_one_rank,
        until=60,
        run_state="running",
        expected=[Expected(symptom="nonfinite", rank=1, roles={0: "cascade", 1: "initiating", 2: "cascade"})],
    ),
    Case(
        name="nan everywhere",
        build=nan_everywhere_at_once,
        until=60,
        run_state="running",
        expected=[Expected(symptom="nonfinite", rank=None, scope="all", candidates=[0, 1])],
    ),
    Case(
        name="nan that recovers",
        build=nan_that_recovers,
        until=140,
        run_state="running",
        expected=[Expected(symptom="nonfinite", rank=0, state="resolved")],
    ),
    Case(
        name="config error",
        build=config_error_everywhere,
        until=30,
        expected=[Expected(symptom="python_error", rank=None, scope="all", candidates=[2, 0, 3, 1])],
    ),
    Case(
        name="cascade first",
        build=cascade_before_its_cause,
        until=60,
        expected=[Expected(symptom="shape_mismatch", rank=1, roles={0: "cascade", 1: "initiating"})],
    ),
    Case(
        name="same failure again",
        build=same_failure_again,
        until=70,
        expected=[Expected(symptom="python_error", rank=1, recurrences=1)],
    ),
    Case(
        name="another failure next",
        build=another_failure_next,
        until=70,
        expected=[Expected(symptom="python_error", rank=1), Expected(symptom="python_error", rank=1)],
    ),
    Case(
        name="failure then success",
        build=failure_then_success,
        until=90,
        run_state="finished",
        expected=[Expected(symptom="python_error", rank=1, state="resolved")],
    ),
    Case(name="sigterm to all", build=sigterm_to_all, until=80, run_state="killed", expected=[]),
    Case(name="interrupt", build=interrupted_by_user, until=80, run_state="cancelled", expected=[]),
    Case(name="preempted", build=preempted, until=80, run_state="preempted", expected=[]),
    Case(name="clean finish", build=clean_finish, until=80, run_state="finished", expected=[]),
    Case(
        name="silent rank",
        build=one_rank_goes_silent,
        until=80,
        run_state="running",
        expected=[Expected(symptom="process_killed", rank=3, roles={3: "initiating"}, node="node-1")],
    ),
    Case(
        name="silent node",
        build=node_goes_silent,
        until=80,
        run_state="running",
        expected=[Expected(symptom="node_failure", rank=None, scope="node", candidates=[2, 3], node="node-1")],
    ),
    Case(
        name="silent run",
        build=everything_goes_silent,
        until=140,
        run_state="unreachable",
        expected=[Expected(symptom="telemetry_lost", rank=None, scope="all", candidates=[0, 1, 2, 3])],
    ),
    Case(
        name="xid",
        build=xid_on_a_node,
        until=60,
        expected=[Expected(symptom="gpu_lost", rank=3, roles={0: "cascade", 3: "initiating"}, node="node-1")],
    ),
    Case(
        name="application xid",
        build=application_xid,
        until=60,
        expected=[Expected(symptom="cuda_illegal_access", rank=1, roles={0: "cascade", 1: "initiating"})],
    ),
    Case(name="captured exception", build=captured_exception_only, until=80, run_state="finished", expected=[]),
    Case(
        name="bare exit",
        build=bare_exit_status,
        until=48.5,
        run_state="running",
        expected=[Expected(symptom="unknown", rank=1, roles={1: "initiating"})],
    ),
    Case(
        name="suspected hang",
        build=suspected_hang_that_recovers,
        until=120,
        run_state="finished",
        expected=[Expected(symptom="hang", rank=None, scope="all", page=False, state="resolved")],
    ),
    Case(name="declared pause", build=declared_pause, until=110, run_state="finished", expected=[]),
]
