"""The incident's life: the table, timings, outages, restarts, attempts."""

import itertools

import pytest

from firstfault import conventions as names
from firstfault_server.core import model
from firstfault_server.core.incident import OPEN, TABLE, step
from firstfault_server.core.thresholds import Thresholds
from firstfault_server.tables import Tables, load_tables
from tests.property import faults
from tests.property.cases import CASES, Case
from tests.property.scripts import T0, Arrival, Driver, Outcome, Script, at, same


@pytest.fixture(scope="module")
def tables() -> Tables:
    return load_tables()


def left_at(outcome: Outcome, incident: model.Incident, revision: int) -> float:
    """Script time at which a revision left the core."""
    return (outcome.times[incident.id, revision] - T0) / 1e9


def settled_at(outcome: Outcome, incident: model.Incident) -> float:
    first = next(one for one in outcome.revisions if one.id == incident.id and one.first_fault.status == "settled")
    return left_at(outcome, incident, first.revision)


# ---- the table -----------------------------------------------------------------------------------------------------------


def test_every_open_state_can_end_and_every_ended_one_can_open_again() -> None:
    lives = {life for life, _ in TABLE} | set(TABLE.values())
    for life in lives:
        reached = {life}
        for _ in lives:
            reached |= {to for (come, _), to in TABLE.items() if come in reached}
        assert reached & OPEN, life
        assert reached & {"resolved", "withdrawn"}, life


def test_only_a_provisional_verdict_settles() -> None:
    assert {life for (life, trigger) in TABLE if trigger == "due"} == {"provisional"}
    assert step("settled", "evidence") == "settled", "more evidence corrects, it does not page again"
    assert step("none", "recovered") == "none"


# ---- timings (issue: exception 2 s, SIGKILL 10 s, hang suspected within budget + 5 s) ------------------------------------


def test_an_exception_is_there_at_once_and_settles_when_all_are_accounted_for(tables: Tables) -> None:
    outcome = Driver(tables=tables).play([faults.exception_on_one_rank()], 60)
    incident = outcome.only()
    assert left_at(outcome, incident, 1) - 40.1 < 0.5
    assert settled_at(outcome, incident) - 40.9 < 1.2


def test_an_exception_settles_in_four_seconds_when_the_others_stay_silent(tables: Tables) -> None:
    script = Script(3)
    last = script.train(0, 40)
    script.exception(40.1, 1, "ValueError", "bad sample", step=last)
    script.beats(40, 60, ranks=(0, 2))
    outcome = Driver(tables=tables).play([script], 48)
    assert 44.0 <= settled_at(outcome, outcome.only()) <= 45.5


def test_waiters_alone_settle_after_fifteen_seconds(tables: Tables) -> None:
    script = Script(4)
    script.train(0, 40)
    for rank in (0, 1):
        script.exception(40.1 + rank, rank, "RuntimeError", "Timed out waiting 1800000ms for recv operation to complete")
    script.beats(40, 70, ranks=(2, 3))
    outcome = Driver(Thresholds(pause_floor_s=100.0), tables=tables).play([script], 58)
    incident = outcome.only()
    assert incident.symptom == "collective_timeout"
    assert 55.0 <= settled_at(outcome, incident) <= 56.5
    assert left_at(outcome, incident, 1) < 46, "queryable before it settles"


def test_a_rank_whose_numbers_come_late_still_counts_before_the_page(tables: Tables) -> None:
    """Rank 0's first numbers arrive seven seconds after rank 1 was seen to be NaN."""
    script = faults.nan_on_one_rank()
    script.sent = [(when + 40 if batch.identity.rank != 1 and batch.sender == "sdk" else when, batch) for when, batch in script.sent]
    outcome = Driver(tables=tables).play([script], 58)
    incident = outcome.only()
    assert (incident.first_fault.rank, incident.page, incident.first_fault.scope) == (1, True, "rank")
    assert outcome.revisions[0].first_fault.rank is None, "one reporter proves nothing"
    assert 40 < settled_at(outcome, incident) < 42


def test_a_hang_is_suspected_soon_after_its_budget_and_pages_only_when_confirmed(tables: Tables) -> None:
    outcome = Driver(tables=tables).play([faults.hang_by_collective_state()], 690)
    incident = outcome.only()
    first = outcome.revisions[0]
    assert (first.severity, first.page, first.first_fault.status, first.first_fault.rank) == ("warning", False, "provisional", 3)
    assert 39 + 10 < left_at(outcome, incident, 1) < 39 + 10 + 5
    pages = [one for one in outcome.revisions if one.page]
    assert 39 + 600 <= left_at(outcome, incident, pages[0].revision) <= 39 + 600 + 6
    assert (pages[0].severity, pages[0].first_fault.status) == ("critical", "settled")


def test_a_pause_that_was_survived_shortens_the_wait_for_a_page(tables: Tables) -> None:
    outcome = Driver(tables=tables).play([faults.hang_confirmed_by_time()], 215)
    pages = [one for one in outcome.revisions if one.page]
    # One pause of 16 s among 75 steps is the learned p99: its fivefold is the budget, and more than threefold the pause.
    assert 89 + 60 < left_at(outcome, outcome.only(), pages[0].revision) <= 91 + 5 * 16 * 1.05 + 6


def test_budgets_are_settings(tables: Tables) -> None:
    limits = Thresholds(pause_floor_s=2.5, hang_confirm_blind_s=8.0)
    outcome = Driver(limits, tables=tables).play([faults.hang_by_collective_state()], 60)
    incident = outcome.only()
    assert (incident.first_fault.rank, incident.page) == (3, True)
    assert settled_at(outcome, incident) < 55


def test_silence_is_named_after_its_budget(tables: Tables) -> None:
    outcome = Driver(tables=tables).play([faults.one_rank_goes_silent()], 80)
    incident = outcome.only()
    named = next(one for one in outcome.revisions if one.symptom == "process_killed")
    assert 38 + 15 < left_at(outcome, incident, named.revision) < 40 + 15 + 2
    assert any("exit record" in one for one in incident.not_seen)


def test_losing_sight_of_everything_pages_only_after_a_minute(tables: Tables) -> None:
    outcome = Driver(tables=tables).play([faults.everything_goes_silent()], 140)
    pages = [one for one in outcome.revisions if one.page]
    incident = outcome.only()
    assert left_at(outcome, incident, pages[0].revision) >= 38 + 15 + 60


def test_silence_that_ends_before_anybody_is_paged_was_nothing(tables: Tables) -> None:
    """The network to the service was down for half a minute; the jobs never noticed."""
    script = Script(4, nodes=2)
    last = script.train(0, 40)
    script.train(70, 160, first_step=last + 30)
    silence = Driver(Thresholds(pause_floor_s=200.0), tables=tables).play([script], 158)
    assert silence.incidents() == []
    assert [one.page for one in silence.revisions] == [False] * len(silence.revisions)
    assert silence.revisions[-1].state == "resolved"


def test_silence_that_ends_after_the_page_is_resolved(tables: Tables) -> None:
    script = Script(4, nodes=2)
    last = script.train(0, 40)
    script.train(40, 160, first_step=last, ranks=(0, 1, 2))
    script.beats(80, 160, ranks=(3,))
    incident = Driver(tables=tables).play([script], 158).only()
    assert (incident.state, incident.page) == ("resolved", True)
    assert incident.resolved_why == "the processes were heard of again"


# ---- outages and restarts of the service -----------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [6.0, 20.0, 60.0, 600.0])
def test_an_outage_of_the_service_makes_nobody_look_silent_or_hung(length: float, tables: Tables) -> None:
    script = Script(4, nodes=2)
    script.train(0, 60 + length + 60)
    outcome = Driver(tables=tables).play([script], 60 + length + 60, Arrival(outage=(60.0, length)))
    assert outcome.revisions == []
    assert outcome.runs["job"].state == "running"


def test_a_failure_during_an_outage_is_found_after_it(tables: Tables) -> None:
    outcome = Driver(tables=tables).play([faults.exception_on_one_rank()], 140, Arrival(outage=(39.0, 60.0)))
    incident = outcome.only()
    assert (incident.first_fault.rank, incident.page) == (1, True)


def test_a_death_without_a_record_during_an_outage_is_found_after_the_grace(tables: Tables) -> None:
    script = Script(4, nodes=2)
    script.train(0, 39)
    script.train(39, 250, ranks=(0, 1, 2), first_step=40)
    outcome = Driver(tables=tables).play([script], 250, Arrival(outage=(40.0, 60.0)))
    incident = outcome.only()
    assert (incident.first_fault.rank, incident.symptom) == (3, "process_killed")
    assert left_at(outcome, incident, 1) > 100 + 30


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_a_restart_at_any_moment_changes_and_repeats_nothing(case: Case, tables: Tables) -> None:
    steady = Driver(tables=tables).play([case.build()], case.until)
    moments = [20.3, 30.2, 40.25, 40.45, 41.0, 42.5, 45.0, 52.0, 57.0]
    shaken = Driver(tables=tables).play([case.build()], case.until, Arrival(snapshots=moments))
    assert [same(one) for one in shaken.incidents()] == [same(one) for one in steady.incidents()]
    assert [(one.id, one.revision, one.page) for one in shaken.revisions] == [(one.id, one.revision, one.page) for one in steady.revisions]


# ---- attempts ------------------------------------------------------------------------------------------------------------


def test_a_new_attempt_begins_when_the_old_one_is_over(tables: Tables) -> None:
    outcome = Driver(tables=tables).play([faults.failure_then_success()], 90)
    run = outcome.runs["job"]
    assert (run.attempt, len(run.attempts_started_ns)) == (2, 2)
    assert {one.process for one in run.ranks} == {"job-2-0", "job-2-1"}
    incident = outcome.only()
    assert incident.resolved_why == "attempt 2 passed step 21"


def test_a_failure_seen_twice_at_one_step_is_periodic(tables: Tables) -> None:
    incident = Driver(tables=tables).play([faults.same_failure_again()], 70).only()
    assert (incident.time_pattern, incident.attempts, incident.first_fault.step) == ("periodic", [1, 2], 21)


def test_a_failure_every_so_many_steps_is_periodic(tables: Tables) -> None:
    script = Script(2)
    for attempt in range(3):
        faults.attempt_fails(script, 30.0 * attempt, 1 + 10 * attempt, "ValueError", "bad sample 17")
        script.restart(30.0 * (attempt + 1))
    incident = Driver(tables=tables).play([script], 95).only()
    assert incident.time_pattern == "periodic"
    assert any("every 10 steps" in one.text for one in incident.evidence)


def test_a_rank_that_never_came_is_named_when_nobody_trains(tables: Tables) -> None:
    script = Script(4)
    script.beats(0, 700, ranks=(0, 1, 2))
    outcome = Driver(tables=tables).play([script], 650)
    incident = outcome.only()
    assert (incident.first_fault.rank, incident.symptom, incident.page) == (3, "hang", True)
    assert 600 <= left_at(outcome, incident, 1) < 605


def test_a_rank_that_never_came_is_a_note_while_the_others_train(tables: Tables) -> None:
    script = Script(4)
    script.train(0, 650, ranks=(0, 1, 2), period=5.0)
    outcome = Driver(tables=tables).play([script], 640)
    assert outcome.revisions == []
    assert outcome.runs["job"].notes == ["ranks never seen: 3"]


def test_old_processes_silent_without_records_also_end_an_attempt(tables: Tables) -> None:
    script = Script(2)
    script.train(0, 40)
    script.restart(60)
    script.train(61, 100)
    outcome = Driver(tables=tables).play([script], 100)
    assert outcome.runs["job"].attempt == 2


def test_one_replaced_process_among_living_peers_is_no_new_attempt(tables: Tables) -> None:
    script = Script(3)
    script.train(0, 60)
    script.exit(60.5, 2, "failed", code=1)
    living = [script.identity(rank) for rank in (0, 1)]
    for when, who in itertools.product(range(60, 260, 2), living):
        script.send(
            when,
            who,
            series=[model.Series(metric=names.STEP, times_ns=[at(when)], values=[float(when)])],
            logs=[model.LogRecord(time_ns=at(when), event_name=names.HEARTBEAT)],
        )
    script.restart(65)
    script.train(66, 260, first_step=60, ranks=(2,))
    outcome = Driver(tables=tables).play([script], 260)
    assert outcome.runs["job"].attempt == 1
    assert {one.process for one in outcome.runs["job"].ranks} == {"job-1-0", "job-1-1", "job-2-2"}


@pytest.mark.parametrize("arrival", [Arrival(), Arrival(outage=(0.0, 30.0))], ids=["at once", "late"])
def test_a_run_starts_with_its_first_attempt(tables: Tables, arrival: Arrival) -> None:
    run = Driver(tables=tables).play([faults.failure_then_success()], 120, arrival).runs["job"]
    assert run.started_ns == run.attempts_started_ns[0] < run.attempts_started_ns[1]


def test_many_attempts_keep_the_state_small(tables: Tables) -> None:
    driver = Driver(tables=tables)
    script = Script(2)
    sizes = []
    for attempt in range(12):
        start = 40.0 * attempt
        faults.attempt_fails(script, start, 1, "ValueError", "bad sample 17")
        script.restart(start + 35)
    outcome = driver.play([script], 500)
    incident = outcome.only()
    assert incident.recurrences == 11
    assert outcome.runs["job"].attempt == 12
    sizes = [len(data) for (stage, _), data in driver.stages.take_snapshots().items() if stage == "run" and data is not None]
    assert not sizes or max(sizes) < 60_000


# ---- what is said ----------------------------------------------------------------------------------------------------------


def test_an_incident_says_what_it_rests_on_and_what_was_not_seen(tables: Tables) -> None:
    script = faults.sigkill_of_one_rank()
    outcome = Driver(tables=tables).play([script], 60)
    incident = outcome.only()
    assert incident.title == "run job: rank 1 (node-0) killed by SIGKILL at step 40"
    assert any("kernel log" in one for one in incident.not_seen)
    assert {one.kind for one in incident.evidence} >= {"signal", "exception"}
    assert incident.impact.gpus == 2
    assert incident.first_fault.pid == script.pid(1)


def test_checkpoints_tell_how_many_steps_were_lost(tables: Tables) -> None:
    script = Script(2)
    last = script.train(0, 40)
    script.log(30.0, 0, names.CHECKPOINT, CHECKPOINT_STEP=25)
    script.log(20.0, 0, names.CHECKPOINT, CHECKPOINT_STEP=15)
    script.exception(40.1, 1, "ValueError", "bad", step=last)
    script.exit(40.2, 1, "failed", code=1)
    incident = Driver(tables=tables).play([script], 60).only()
    assert (incident.impact.last_checkpoint_step, incident.impact.steps_lost) == (25, last - 25)


def test_the_same_failure_in_another_run_is_counted(tables: Tables) -> None:
    scripts = []
    for number, name in enumerate(("alpha", "beta", "gamma")):
        script = Script(2, run=name)
        last = script.train(number, 40 + number)
        script.exception(40.1 + number, 1, "ValueError", f"bad sample {17 + number}", step=last)
        script.exit(40.2 + number, 1, "failed", code=1)
        scripts.append(script)
    incidents = Driver(tables=tables).play(scripts, 70).incidents()
    assert len(incidents) == 3
    assert len({one.history.group for one in incidents}) == 1
    last_one = max(incidents, key=lambda one: one.opened_at)
    assert (last_one.history.count_24h, last_one.history.same_node) == (3, 2)
    assert sorted(last_one.history.runs) == sorted(one.run.id for one in incidents if one is not last_one)


def test_runs_and_tenants_do_not_mix(tables: Tables) -> None:
    scripts = [faults.exception_on_one_rank(), Script(2, run="job", tenant="t2")]
    scripts[1].train(0, 50)
    outcome = Driver(tables=tables).play(scripts, 52)
    assert [one.tenant for one in outcome.incidents()] == ["t1"]
