"""Runs one case of the table against a real service and compares what came of it."""

import os
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from firstfault_server.demo.plan import Fault, Plan
from tests.faults.jobs import Job, environment
from tests.faults.service import Document, Service, until
from tests.faults.table import THRESHOLDS, Case, Expected

Start = Callable[[Case, Plan, Path, Mapping[str, str]], Job]

FIVE_FOLD = 5.0
"""The bounds of the design hold on an idle machine; tests share two busy cores."""
EXCEPTION_WITHIN_S = 2.0
KILL_WITHIN_S = 10.0
HANG_OVER_BUDGET_S = 5.0
SETTLE_WITHIN_S = 60.0
JOB_WITHIN_S = 240.0
QUIET_S = 6.0
"""After the end of a run nothing may follow for longer than the service takes to settle (4 s)."""
STRIKE_STEP = 10


def play(case: Case, start: Start, service: Service, folder: Path, run: str) -> list[Document]:
    """Run every attempt, then look at the incidents, the pages and the run; returns the incidents in the order in which they opened."""
    for number, plan in enumerate(case.attempts, 1):
        job = start(case, plan, folder / f"attempt-{number}", environment(case, service.endpoint, run))
        try:
            _attend(case, plan, job, service, run, number)
        finally:
            job.kill()
    return _conclude(case, service, run)


def _attend(case: Case, plan: Plan, job: Job, service: Service, run: str, attempt: int) -> None:
    def explain() -> str:
        return f"{job.output()}\nrun: {service.run(run)}\nincidents: {_brief(service.incidents(run))}"

    if case.kill:
        _strike(case, job, service, run, explain)
    if plan.fault is Fault.HANG:
        _watch_hang(case, job, service, run, explain)
    until(job.ended, JOB_WITHIN_S, "the job ends", explain)
    ended = time.time()
    if not case.expected:
        return
    settled = min(attempt, len(case.expected))
    until(lambda: len(service.incidents(run)) >= settled, KILL_WITHIN_S * FIVE_FOLD, "its incident opens", explain)
    within = EXCEPTION_WITHIN_S if plan.fault in (Fault.EXCEPTION, Fault.CONFIG) else KILL_WITHIN_S
    # A lower bound of the delay: the job ends a little after its fault.
    assert time.time() - ended <= within * FIVE_FOLD, f"queryable {time.time() - ended:.1f} s after the end of the job"
    until(lambda: _all_settled(service, run, settled), SETTLE_WITHIN_S, "it settles", explain)
    # The next attempt starts when this one is over for the service too.
    until(lambda: _over(service, run, attempt), SETTLE_WITHIN_S, "the attempt is over", explain)


def _strike(case: Case, job: Job, service: Service, run: str, explain: Callable[[], str]) -> None:
    def stepping() -> bool:
        ranks = service.ranks(run) if service.run(run) else {}
        return len(ranks) == case.ranks and all((rank["step"] or 0) >= STRIKE_STEP for rank in ranks.values())

    until(stepping, JOB_WITHIN_S, f"every rank passes step {STRIKE_STEP}", explain)
    if case.kill == "sigterm":
        job.terminate()
        return
    victim = service.ranks(run)[1]
    service.report_oom_kill(victim["node"], victim["pid"])
    os.kill(victim["pid"], signal.SIGKILL)


def _watch_hang(case: Case, job: Job, service: Service, run: str, explain: Callable[[], str]) -> None:
    """First suspected without a page, then confirmed with one, while every process lives; ended by the test, which changes nothing."""
    limits = THRESHOLDS[case.thresholds]
    (expected,) = case.expected
    until(lambda: service.run(run), JOB_WITHIN_S, "the run is known", explain)
    suspected = until(lambda: next(iter(service.incidents(run)), None), JOB_WITHIN_S, "the hang is suspected", explain)
    assert suspected["symptom"] == "hang", _brief([suspected])
    assert suspected["first_fault"]["rank"] == expected.rank, _brief([suspected])
    assert (suspected["severity"], suspected["page"], suspected["first_fault"]["status"]) == ("warning", False, "provisional")
    within = (limits["hang_confirm_blind_s"] + HANG_OVER_BUDGET_S) * FIVE_FOLD
    until(lambda: _all_settled(service, run, 1), within, "the hang is confirmed", explain)
    assert not job.ended(), explain()
    job.terminate()


def _conclude(case: Case, service: Service, run: str) -> list[Document]:
    def explain() -> str:
        return f"run: {service.run(run)}\nincidents: {_brief(service.incidents(run))}\nservice: {service.errors.read_text()[-1500:]}"

    until(lambda: _over(service, run, len(case.attempts)), SETTLE_WITHIN_S, "the run is over", explain)
    if not case.expected:
        quiet()
    # That nothing follows is looked at again, for all runs at once, before the service stops (conftest.py).
    service.counted[run] = len(case.expected)
    # Runs and incidents are stored by different hands where there are several.
    again = [(one.recurrences, "settled") for one in case.expected]

    def verdicts() -> list[tuple[int, str]]:
        return [(incident["recurrences"], incident["first_fault"]["status"]) for incident in service.incidents(run)]

    until(lambda: verdicts() == again, SETTLE_WITHIN_S, "every verdict is stored", explain)
    incidents = service.incidents(run)
    assert len(incidents) == len(case.expected), explain()
    for incident, expected in zip(incidents, case.expected, strict=True):
        check(incident, expected)
        check_pages(service, incident, expected)
    known = service.run(run)
    assert known is not None
    assert known["state"] in case.run_states, explain()
    assert known["attempt"] == len(case.attempts), explain()
    assert known["world_size"] == case.ranks, explain()
    return incidents


def quiet() -> None:
    """Let pass the time in which something could still follow."""
    since = time.monotonic()
    until(lambda: time.monotonic() - since > QUIET_S, QUIET_S + 1, "time passes")


def check(incident: Document, expected: Expected) -> None:
    """Compare one incident with what it must be."""
    first = incident["first_fault"]
    seen = _brief([incident])
    assert incident["symptom"] == expected.symptom, seen
    assert (first["rank"], first["scope"], first["status"]) == (expected.rank, expected.scope, "settled"), seen
    roles = {item["rank"]: item["role"] for item in incident["ranks"]}
    assert set(roles) == set(expected.roles), seen
    assert all(role in expected.roles[rank] for rank, role in roles.items()), seen
    if expected.exception:
        assert first["exception"]["type"].endswith(expected.exception), seen
        assert first["exception"]["stacktrace"], seen
        assert incident["fingerprint"]["id"], seen
    else:
        assert first["exception"] is None, seen
    for kind, text in expected.evidence:
        assert any(item["kind"] == kind and text in item["text"] for item in incident["evidence"]), f"{kind} {text!r} not in {seen}"
    assert (incident["recurrences"], incident["state"]) == (expected.recurrences, expected.state), seen
    assert incident["page"], seen


def check_pages(service: Service, incident: Document, expected: Expected) -> None:
    """One opening message, however many ranks spoke, and it already names the right rank."""
    opening = until(
        lambda: _opening(service, incident), SETTLE_WITHIN_S, "a page goes out", lambda: str(service.deliveries(incident["id"]))
    )
    assert len(opening) == 1, opening
    first = opening[0]["first_fault"]
    assert (first["rank"], first["scope"]) == (expected.rank, expected.scope), first


def _opening(service: Service, incident: Document) -> list[Document]:
    return [message for message in service.pages.of(incident["id"]).values() if message["type"] == "incident.opened"]


def _over(service: Service, run: str, attempt: int) -> bool:
    known = service.run(run)
    return known is not None and known["state"] != "running" and known["attempt"] == attempt


def _all_settled(service: Service, run: str, count: int) -> bool:
    incidents = service.incidents(run)
    return len(incidents) >= count and all(incident["first_fault"]["status"] == "settled" for incident in incidents)


def _brief(incidents: list[Document]) -> str:
    lines = []
    for incident in incidents:
        first, error = incident["first_fault"], incident["first_fault"]["exception"]
        roles = ", ".join(f"{item['rank']} {item['role']}" for item in incident["ranks"])
        verdict = f"{first['status']} rank {first['rank']} scope {first['scope']}; {roles}; {error and error['type']}"
        lines.append(f"{incident['symptom']} {incident['state']} page {incident['page']} again {incident['recurrences']}: {verdict}")
        if incident["state"] == "resolved":
            lines.append(f"    resolved: {incident.get('resolved_why')}")
        lines += [f"    {item['rank']} {item['kind']} {item['role']}: {item['text'][:140]}" for item in incident["evidence"]]
    return "\n".join(lines) or "none"
