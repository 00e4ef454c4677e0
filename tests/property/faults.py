"""The failures a training job can have, as scripts."""

from firstfault import conventions as names
from tests.property.scripts import Script

LAUNCHER_STOP = 15


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


def attempt_fails(script: Script, start: float, step: int, kind: str, message: str) -> None:
    last = script.train(start, start + 20, first_step=step)
    script.exception(start + 20.1, 1, kind, message, step=last)
    script.exit(start + 20.3, 1, "failed", code=1)
    _peer_dies(script, start + 20.4, 0, last)


def same_failure_again() -> Script:
    script = Script(2)
    attempt_fails(script, 0, 1, "ValueError", "bad sample 17")
    script.restart(30)
    attempt_fails(script, 30, 1, "ValueError", "bad sample 17")
    return script


def another_failure_next() -> Script:
    script = Script(2)
    attempt_fails(script, 0, 1, "ValueError", "bad sample 17")
    script.restart(30)
    attempt_fails(script, 30, 1, "KeyError", "'labels'")
    return script


def failure_then_success() -> Script:
    script = Script(2)
    attempt_fails(script, 0, 1, "ValueError", "bad sample 17")
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
