"""Whose an exception is that nobody put a rank in front of, and which of several deaths a launcher calls the first."""

from firstfault_server.core import model
from firstfault_server.core.cause.log_incidents import incidents_of
from firstfault_server.core.cause.log_reader import LogReader
from firstfault_server.tables import load_tables

TABLES = load_tables()
READER = TABLES.text_reader()
TRACE = 'Traceback (most recent call last):\n  File "/w/train.py", line 9, in step\n    go()\nZeroDivisionError: division by zero\n'
SIGNALS = {-6: "SIGABRT", -9: "SIGKILL", -11: "SIGSEGV", -15: "SIGTERM"}


def row(rank: int, code: int) -> str:
    said = f"Signal {-code} ({SIGNALS[code]}) received by PID {70 + rank}" if code < 0 else "To enable traceback see the manual"
    return (
        f"  time      : 2024-05-01_10:20:0{rank}\n  host      : n1\n  rank      : {rank} (local_rank: {rank})\n"
        f"  exitcode  : {code} (pid: {70 + rank})\n  error_file: <N/A>\n  traceback : {said}\n"
    )


def table(first: tuple[int, int], *others: tuple[int, int]) -> str:
    rest = "".join(f"[{number}]:\n{row(*other)}" for number, other in enumerate(others, 1))
    return f"{'=' * 60}\ntrain.py FAILED\nFailures:\n{rest}----\nRoot Cause (first observed failure):\n[0]:\n{row(*first)}====\n"


def judge(text: str) -> model.Incident:
    log = LogReader(READER, "job.log")
    for number, line in enumerate(text.splitlines(), 1):
        log.feed(line, number)
    return incidents_of([log.close()], TABLES.judging)[0]


def test_an_exception_without_a_rank_is_of_the_rank_that_the_launcher_says_failed() -> None:
    for told in (
        table((2, 1), (0, -6), (1, -6)),
        "[rank: 2] Child process with PID 72 terminated with code 1. Forcefully terminating all other processes\n",
        "E0501 10:00:00.1 9 torch/distributed/elastic/api.py:826] failed (exitcode: 1) local_rank: 2 (pid: 72) of binary: python\n",
        "[ERROR] [launch.py:321] ['python', '-u', 'train.py', '--local_rank=2'] exits with return code = 1\n",
        "srun: error: n1: task 2: Exited with exit code 1\n",
        "ERROR:runner:Rank 2 crashed with exit code 1.\n",
    ):
        incident = judge(TRACE + told)
        assert (incident.symptom, incident.first_fault.rank, incident.first_fault.scope) == ("python_error", 2, "rank"), told


def test_an_error_that_several_ranks_printed_is_not_laid_on_the_first_one_alone() -> None:
    incident = judge(TRACE * 3 + table((0, 1), (1, 1), (2, 1)))
    assert (incident.symptom, incident.first_fault.rank) == ("python_error", None)


def test_of_several_signals_the_root_cause_is_first_and_the_others_follow() -> None:
    incident = judge(table((5, -11), (0, -6), (1, -6)))
    assert (incident.symptom, incident.first_fault.rank) == ("process_crashed", 5)
    assert {role.rank: role.role for role in incident.ranks if role.rank in (0, 1)} == {0: "cascade", 1: "cascade"}
    stopped = judge(table((0, -9), (1, -15), (2, -15)))
    assert (stopped.symptom, stopped.first_fault.rank) == ("process_killed", 0)


def test_a_spawned_child_says_its_rank() -> None:
    inner = TRACE.replace("Traceback", "\nTraceback", 1)
    outer = (
        'Traceback (most recent call last):\n  File "/w/main.py", line 3, in <module>\n    run()\n'
        f"torch.multiprocessing.spawn.ProcessRaisedException: \n\n-- Process 1 terminated with the following error:{inner}"
    )
    assert judge(outer).first_fault.rank == 1
    assert judge("torch.multiprocessing.spawn.ProcessExitedException: process 2 terminated with signal SIGSEGV\n").first_fault.rank == 2


def test_ranks_that_others_name_as_absent_are_waited_for() -> None:
    barrier = "[rank0]: RuntimeError: [Rank 0]: Ranks 2 failed to pass monitoredBarrier in 1800000 ms\n"
    reset = "[rank1]: ConnectionResetError: [Errno 104] Connection reset by peer\n"
    assert judge(barrier + reset).first_fault.rank == 2
    stall = (
        "[1,0]<stderr>:One or more tensors were submitted to be reduced by subset of ranks and are waiting\n"
        "[1,0]<stderr>:Missing ranks:\n[1,0]<stderr>:3: [DistributedAdam_Allreduce/x ...]\n"
    )
    assert judge(stall).first_fault.rank == 3


def test_a_process_without_a_rank_that_says_the_same_does_not_compete() -> None:
    text = "srun: error: n4: task 6: Out Of Memory\nslurmstepd: error: Detected 1 oom_kill event in StepId=9.0.\n"
    incident = judge(text + "2: ConnectionResetError: [Errno 104] Connection reset by peer\n")
    assert (incident.symptom, incident.first_fault.rank, incident.first_fault.scope) == ("host_oom", 6, "rank")


def test_what_python_warns_of_has_not_happened() -> None:
    warned = "x.py:3: UserWarning: CUDA out of memory is likely with this batch\n"
    assert judge(warned + TRACE).symptom == "python_error"


def test_ranks_in_brackets_and_before_bars_are_prefixes() -> None:
    for prefix in ("[rank=3] ", "rank 3 | ", "[Rank 3] ", "2024-05-01 10:00:00 [rank=3] "):
        text = "".join(f"{prefix}{line}\n" for line in TRACE.splitlines())
        assert judge(text).first_fault.rank == 3, prefix


def test_where_only_a_launcher_speaks_its_rank_is_the_first() -> None:
    incident = judge(table((0, 1), (1, 1)))
    assert (incident.symptom, incident.first_fault.rank) == ("unknown", 0)
    assert any("exception" in item for item in incident.not_seen)


def test_a_status_below_zero_is_the_signal_that_killed_the_rank() -> None:
    for code, symptom in ((-11, "process_crashed"), (-9, "process_killed")):
        incident = judge(f"Building trainer...\nERROR:runner:Rank 3 crashed with exit code {code}.\n")
        assert (incident.symptom, incident.first_fault.rank) == (symptom, 3)


def test_a_child_named_above_its_traceback_is_the_first_rank() -> None:
    incident = judge("-- Process 1 terminated with the following error:\n" + TRACE)
    assert incident.first_fault.rank == 1


ASSERTION = "Index.cu:12: select: block: [3,0,0], thread: [9,0,0] Assertion `srcIndex < srcSelectDimSize` failed.\n"


def marked(rank: int, text: str) -> str:
    return "".join(f"[rank{rank}]: {line}\n" for line in text.splitlines())


def test_what_native_code_prints_without_a_rank_is_of_the_only_rank_that_fails_after_it() -> None:
    incident = judge(ASSERTION + marked(5, TRACE))
    assert (incident.symptom, incident.first_fault.rank) == ("device_assert", 5)


def test_what_native_code_prints_without_a_rank_is_of_nobody_where_two_ranks_fail() -> None:
    incident = judge(ASSERTION + marked(5, TRACE) + marked(6, TRACE))
    assert (incident.symptom, incident.first_fault.rank) == ("device_assert", None)
