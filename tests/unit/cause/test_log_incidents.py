"""From logs to incidents: who failed first, on which evidence, in one file or many."""

from firstfault_server.core import model
from firstfault_server.core.cause.log_incidents import incidents_of
from firstfault_server.core.cause.log_reader import LogReader
from firstfault_server.core.cause.log_summary import LogSummary
from firstfault_server.tables import load_tables

TABLES = load_tables()
READER = TABLES.text_reader()
WATCHDOG = (
    "[rank{0}]:[E ProcessGroupNCCL.cpp:616] [Rank {0}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum={1}, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600012 milliseconds before timing out."
)


def read(text: str, source: str = "job.log", rank: int | None = None) -> LogSummary:
    log = LogReader(READER, source, rank=rank)
    for number, line in enumerate(text.splitlines(), 1):
        log.feed(line, number)
    return log.close()


def judge(*logs: LogSummary) -> list[model.Incident]:
    return incidents_of(logs, TABLES.judging)


def trace(prefix: str, kind: str, message: str, function: str = "step") -> str:
    lines = ["Traceback (most recent call last):", f'  File "/w/train.py", line 9, in {function}', "    go()", f"{kind}: {message}"]
    return "".join(f"{prefix}{line}\n" for line in lines)


def test_logs_without_a_failure_give_no_incident() -> None:
    assert judge(read("step 1 loss 0.5\nstep 2 loss 0.4\nepoch 1 done\n")) == []
    assert judge(read("")) == []
    assert judge() == []


def test_a_python_error_behind_watchdogs_is_first_and_the_watchdogs_wait() -> None:
    text = trace("[rank2]: ", "ZeroDivisionError", "division by zero")
    text += "\n".join(WATCHDOG.format(rank, 77) for rank in (0, 1, 3))
    (incident,) = judge(read(text))
    assert (incident.symptom, incident.first_fault.rank) == ("python_error", 2)
    assert {(rank.rank, rank.role) for rank in incident.ranks} == {(0, "waiting"), (1, "waiting"), (2, "initiating"), (3, "waiting")}
    assert incident.first_fault.exception is not None
    assert incident.first_fault.exception.type == "ZeroDivisionError"
    assert incident.evidence[0].source == "job.log:4"
    assert incident.evidence[0].text == "ZeroDivisionError: division by zero at /w/train.py:9 in step"


def test_the_rank_that_does_not_wait_is_waited_for() -> None:
    (incident,) = judge(read("\n".join(WATCHDOG.format(rank, 77) for rank in (0, 1, 3))))
    assert (incident.symptom, incident.first_fault.rank) == ("collective_timeout", 2)


def test_all_ranks_waiting_alike_names_nobody() -> None:
    (incident,) = judge(read("\n".join(WATCHDOG.format(rank, 77) for rank in range(4))))
    assert (incident.first_fault.rank, incident.first_fault.scope) == (None, "all")
    assert sorted(incident.first_fault.candidates) == [0, 1, 2, 3]


def test_the_rank_behind_in_the_group_is_waited_for() -> None:
    lines = [WATCHDOG.format(rank, 77 if rank != 1 else 76) for rank in range(3)]
    (incident,) = judge(read("\n".join(lines)))
    assert 1 in (incident.first_fault.rank, *incident.first_fault.candidates)


def test_every_rank_with_the_same_error_is_scope_all() -> None:
    text = "".join(trace(f"[rank{rank}]: ", "ValueError", "bad flag", "main") for rank in range(3))
    (incident,) = judge(read(text))
    assert (incident.first_fault.rank, incident.first_fault.scope, incident.first_fault.candidates[0]) == (None, "all", 0)


def test_a_reset_connection_is_a_cascade_whatever_is_printed_first() -> None:
    text = trace("[rank0]: ", "ConnectionResetError", "[Errno 104] Connection reset by peer") + trace("[rank3]: ", "KeyError", "'labels'")
    (incident,) = judge(read(text))
    assert incident.first_fault.rank == 3
    assert [(rank.rank, rank.role) for rank in incident.ranks if rank.rank == 0] == [(0, "cascade")]


def test_the_launchers_table_names_the_killed_rank() -> None:
    text = """Root Cause (first observed failure):
[0]:
  time      : 2024-05-01_10:20:01
  host      : n3
  rank      : 5 (local_rank: 1)
  exitcode  : -9 (pid: 71)
  error_file: <N/A>
  traceback : Signal 9 (SIGKILL) received by PID 71
"""
    (incident,) = judge(read(text))
    assert (incident.symptom, incident.first_fault.rank, incident.first_fault.node) == ("process_killed", 5, "n3")


def test_a_kernel_kill_in_another_file_explains_a_sigkill() -> None:
    job = "exitcode log\n  rank      : 5 (local_rank: 1)\n  exitcode  : -9 (pid: 71)\n"
    kernel = "2024-05-01 10:20:00 kernel: Out of memory: Killed process 71 (python) total-vm:1kB, anon-rss:1kB\n"
    (incident,) = judge(read(job), read(kernel, "kern.log"))
    assert incident.symptom == "host_oom"


def test_a_hardware_xid_outranks_the_exception_and_an_application_xid_does_not() -> None:
    job = trace("[rank1]: ", "RuntimeError", "CUDA error: an illegal memory access was encountered")
    hard = "kernel: NVRM: Xid (PCI:0000:3b:00): 79, pid=7, GPU has fallen off the bus.\n"
    soft = "kernel: NVRM: Xid (PCI:0000:3b:00): 31, pid=7, name=python, Ch 00000008, intr 10000000.\n"
    assert judge(read(job + hard))[0].symptom == "gpu_lost"
    assert judge(read(job + soft))[0].symptom == "cuda_illegal_access"


def test_advice_of_a_library_is_no_evidence() -> None:
    text = trace("", "RuntimeError", "CUDA error: device-side assert triggered\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1.")
    (incident,) = judge(read(text))
    assert all("CUDA_LAUNCH_BLOCKING" not in item.text for item in incident.evidence)


def test_failures_of_two_attempts_stay_two_incidents_and_the_same_one_is_counted() -> None:
    again = "INFO Will restart worker group, 2 restarts left\n"
    one, two = trace("", "KeyError", "'a'", "load"), trace("", "OSError", "[Errno 28] No space left on device", "save")
    incidents = judge(read(one + again + two))
    assert [incident.symptom for incident in incidents] == ["python_error", "disk_full"]
    (same,) = judge(read(one + again + one))
    assert (same.recurrences, same.attempts) == (1, [1, 2])


def test_an_error_that_training_survived_says_so_and_comes_last() -> None:
    progress = "".join(f"step {step} loss 0.1\n" for step in range(10, 20))
    survived = trace("WARNING ", "TimeoutError", "storage was slow", "fetch")
    (incident,) = judge(read(survived + progress))
    assert incident.state == "resolved"
    assert "line" in incident.resolved_why
    last = trace("", "OSError", "[Errno 28] No space left on device", "save")
    assert judge(read(survived + progress + last))[0].symptom == "disk_full"


def test_what_was_survived_often_and_then_was_not_is_one_incident() -> None:
    progress = "".join(f"step {step} loss 0.1\n" for step in range(4))
    handled = trace("WARNING ", "TimeoutError", "storage was slow", "fetch")
    (incident,) = judge(read((handled + progress) * 50 + handled))
    assert (incident.symptom, incident.state) == ("python_error", "open")
    (calm,) = judge(read((handled + progress) * 50))
    assert calm.state == "resolved"


def test_retries_that_were_survived_do_not_hide_the_failure() -> None:
    steps = "".join(f"step {step} loss 0.1\n" for step in range(4))
    retries = ("WARNING retrying: Connection reset by peer\n" + steps) * 30
    incidents = judge(read(retries + trace("", "ZeroDivisionError", "division by zero")))
    assert [(incident.symptom, incident.state) for incident in incidents][:1] == [("python_error", "open")]
    assert [(incident.state, incident.page) for incident in judge(read(retries))] == [("resolved", False)]


def test_progress_of_other_ranks_and_after_the_end_of_a_process_is_no_survival() -> None:
    others = "".join(f"[rank0]: step {step} loss 0.1\n" for step in range(10, 20))
    (incident,) = judge(read(trace("[rank1]: ", "KeyError", "'a'") + others))
    assert (incident.state, incident.first_fault.rank) == ("open", 1)
    unnamed = "".join(f"step {step} loss 0.1\n" for step in range(10, 20))
    (incident,) = judge(read(trace("", "KeyError", "'a'", "<module>") + unnamed))
    assert incident.state == "open"


def test_a_progress_bar_that_is_printed_once_more_is_no_survival() -> None:
    (incident,) = judge(read(trace("", "KeyError", "'a'") + "  3%|#   | 3/99 [00:01<00:20]\n  3%|#   | 3/99 [00:02<00:20]\n"))
    assert incident.state == "open"


def test_a_request_to_stop_is_preempted_and_does_not_page() -> None:
    text = "slurmstepd: error: *** JOB 71 ON n4 CANCELLED AT 2025-01-02T03:04:05 DUE TO TIME LIMIT ***\n"
    (incident,) = judge(read(text))
    assert (incident.symptom, incident.page) == ("preempted", False)


def test_files_per_rank_take_their_rank_from_the_name_and_without_times_name_candidates() -> None:
    logs = [read(trace("", kind, "x"), f"rank_{rank}.log", rank) for rank, kind in ((0, "ValueError"), (1, "KeyError"))]
    (incident,) = judge(*logs)
    assert incident.first_fault.rank is None
    assert sorted(incident.first_fault.candidates) == [0, 1]
    timed = [
        read(
            f"2024-05-01 10:00:0{9 - rank} start\n" + trace(f"2024-05-01 10:00:0{9 - rank} ", "ValueError", "x", f"f{rank}"),
            f"r{rank}",
            rank,
        )
        for rank in (0, 1)
    ]
    assert judge(*timed)[0].first_fault.rank == 1


def test_not_seen_says_what_was_absent() -> None:
    (incident,) = judge(read(trace("", "KeyError", "'a'")))
    assert "kernel log" in incident.not_seen
    assert any("rank" in item for item in incident.not_seen)


def test_same_evidence_in_any_file_order_gives_the_same_verdict() -> None:
    logs = [read("\n".join((WATCHDOG.format(rank, 5),)), f"rank_{rank}.log", rank) for rank in (0, 1, 3)]
    logs.append(read(trace("", "ValueError", "x"), "rank_2.log", 2))
    verdicts = {(incident.symptom, incident.first_fault.rank) for order in (logs, logs[::-1]) for incident in judge(*order)}
    assert verdicts == {("python_error", 2)}


def test_the_same_step_or_a_fixed_distance_between_steps_is_periodic() -> None:
    again = "INFO Will restart worker group, 2 restarts left\n"

    def attempt(step: int) -> str:
        return f"step {step} loss 0.1\n" + trace("", "KeyError", "'a'", "load") + again

    (same,) = judge(read(attempt(400) + attempt(400)))
    assert (same.time_pattern, same.first_fault.step) == ("periodic", 400)
    assert "400" in same.advice[0].because
    (every,) = judge(read(attempt(100) + attempt(200) + attempt(300)))
    assert every.time_pattern == "periodic"
    (other,) = judge(read(attempt(100) + attempt(217) + attempt(300)))
    assert other.time_pattern == "instant"


def test_nan_losses_that_stay_are_nonfinite() -> None:
    (incident,) = judge(read("step 1: loss 2.1\nstep 2: loss nan\nstep 3: loss nan\n"))
    assert incident.symptom == "nonfinite"


def test_what_a_script_around_the_job_was_refused_does_not_lead_over_the_error_of_the_job() -> None:
    refused = "/opt/hooks/pre.sh: line 12: /run/marker: Permission denied\n"
    assert judge(read(refused + trace("", "FrobError", "all is lost")))[0].symptom == "python_error"


def test_workers_that_are_gone_lead_only_where_nothing_says_why() -> None:
    gone = trace("", "RuntimeError", "One of the loader's workers is no longer alive.")
    assert (
        judge(read(trace("", "UnboundLocalError", "local variable 'a' referenced before assignment", "load") + gone))[0].symptom
        == "api_misuse"
    )
    assert judge(read(gone))[0].symptom == "process_crashed"


def test_an_xid_that_follows_another_is_judged_by_that_one() -> None:
    line = "kernel: NVRM: Xid (PCI:0000:41:00): 45, pid=77, name=train, Ch 00000009 caused by previous Xid {}\n"
    assert judge(read(line.format(145)))[0].symptom == "interconnect_error"
    assert judge(read(line.format(79)))[0].symptom == "gpu_lost"
