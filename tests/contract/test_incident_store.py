"""What every IncidentStore promises."""

from typing import Any

import pytest

from firstfault_server.core import model
from firstfault_server.core.search import And, Expression, Not, Or, Term, Text
from firstfault_server.core.search_match import SearchError
from firstfault_server.ports import ListQuery, NotFound
from tests.contract.conftest import Stores
from tests.contract.records import NOW_NS, SECOND_NS, audit, incident, run


def found(stores: Stores, where: Expression, now_ns: int = NOW_NS) -> set[str]:
    return {item.id for item, _ in stores.incidents.incidents(ListQuery(tenant="acme", where=where), now_ns).items}


def marked(stores: Stores, incident_id: str, **marks: Any) -> None:
    triage = stores.triage.triage("acme", incident_id)
    changed = model.Triage(**{name: getattr(triage, name) for name in triage.__struct_fields__} | marks)
    stores.triage.put_triage(changed, audit(1, id=f"{incident_id}-{triage.version}"))


def test_an_incident_comes_back_whole(stores: Stores) -> None:
    written = incident(
        1,
        first_fault=model.FirstFault(
            rank=3, node="n-01", exception=model.ExceptionInfo(type="ValueError", message="bad"), stderr_tail=["a", "b"]
        ),
        ranks=[model.RankRole(rank=3, role="initiating", why="raised first")],
        evidence=[model.Evidence(id="ev-1", kind="exception", text="ValueError: bad", rank=3)],
        impact=model.Impact(gpus=8, idle_s=1.5),
    )
    stores.incidents.write_incidents([written])
    assert stores.incidents.incident("acme", "i-0001") == written


def test_unknown_and_foreign_ids_are_not_found(stores: Stores) -> None:
    stores.incidents.write_incidents([incident(1)])
    stores.incidents.write_runs([run(1)])
    for tenant, name in (("acme", "nothing"), ("other", "i-0001")):
        with pytest.raises(NotFound):
            stores.incidents.incident(tenant, name)
        assert stores.incidents.revisions(tenant, name) == []
    for tenant, name in (("acme", "nothing"), ("other", "r-1")):
        with pytest.raises(NotFound):
            stores.incidents.run(tenant, name)
    assert stores.incidents.incidents(ListQuery(tenant="other"), NOW_NS).items == []
    assert stores.incidents.runs(ListQuery(tenant="other")).items == []


@pytest.mark.parametrize("order", [(1, 2, 3), (3, 1, 2), (2, 3, 1), (3, 3, 2)])
def test_the_highest_revision_is_the_truth(stores: Stores, order: tuple[int, ...]) -> None:
    for revision in order:
        stores.incidents.write_incidents([incident(1, revision=revision, title=f"revision {revision}")])
        stores.incidents.write_runs([run(1, revision=revision, name=f"revision {revision}")])
    assert stores.incidents.incident("acme", "i-0001").title == "revision 3"
    assert stores.incidents.run("acme", "r-1").name == "revision 3"
    assert found(stores, Text(value="3")) == {"i-0001"}
    assert found(stores, Text(value="revision 2", phrase=True)) == set()


def test_the_timeline_holds_each_revision_once(stores: Stores) -> None:
    for revision in (1, 2, 2, 1, 4):
        stores.incidents.write_incidents([incident(1, revision=revision)])
    assert [item.revision for item in stores.incidents.revisions("acme", "i-0001")] == [1, 2, 4]


def test_a_very_long_story_keeps_its_beginning_and_its_end(stores: Stores) -> None:
    stores.incidents.write_incidents([incident(1, revision=revision) for revision in range(1, 301)])
    kept = [item.revision for item in stores.incidents.revisions("acme", "i-0001")]
    assert kept == [*range(1, 51), *range(151, 301)]


def test_lists_are_newest_first_in_stable_pages(stores: Stores) -> None:
    stores.incidents.write_incidents([incident(number, opened_at=NOW_NS + number // 2) for number in range(7)])
    seen, after = [], None
    while True:
        page = stores.incidents.incidents(ListQuery(tenant="acme", limit=3, after=after), NOW_NS)
        seen += [item.id for item, _ in page.items]
        if page.next_key is None:
            break
        after = tuple(page.next_key)
        stores.incidents.write_incidents([incident(90 + len(seen), opened_at=NOW_NS + 100)])
    assert seen == [f"i-{number:04}" for number in (6, 5, 4, 3, 2, 1, 0)]


def test_a_period_is_half_open(stores: Stores) -> None:
    stores.incidents.write_incidents([incident(number) for number in range(4)])
    query = ListQuery(tenant="acme", since_ns=NOW_NS + SECOND_NS, until_ns=NOW_NS + 3 * SECOND_NS)
    assert [item.id for item, _ in stores.incidents.incidents(query, NOW_NS).items] == ["i-0002", "i-0001"]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (Term(key="is", value="open"), {2, 3}),
        (Term(key="is", value="acknowledged"), {1}),
        (Term(key="is", value="resolved"), {4}),
        (Term(key="is", value="page"), {2}),
        (Term(key="is", value="settled"), {3}),
        (Term(key="is", value="provisional"), {1, 2, 4}),
        (Term(key="is", value="muted"), {3}),
        (Not(part=Term(key="is", value="muted")), {1, 2, 4}),
        (Term(key="run", value="r-1"), {1, 2, 3}),
        (Term(key="name", value="finetune"), {4}),
        (Term(key="node", value="n-01"), {1}),
        (Term(key="node", value="n-07"), {2}),
        (Term(key="rank", value="3"), {1, 2}),
        (Term(key="rank", value="3", operator=">"), {2}),
        (Term(key="rank", value="9"), set()),
        (Term(key="symptom", value="nccl_timeout"), {3}),
        (Term(key="family", value="communication"), {3}),
        (Term(key="domain", value="infrastructure"), {3}),
        (Term(key="severity", value="critical"), {2}),
        (Term(key="severity", value="error", operator=">"), {2}),
        (Term(key="attempt", value="2"), {3}),
        (Term(key="owner", value="grace"), {4}),
        (Term(key="fingerprint", value="fp"), {1}),
        (Term(key="fingerprint", value="stack"), {1}),
        (Term(key="assignee", value="ada"), {1}),
        (Term(key="has", value="assignee"), {1}),
        (Term(key="has", value="exception"), {1}),
        (Text(value="valueerror"), {1}),
        (Text(value="watchdog timeout", phrase=True), {2}),
        (Text(value="pretrain failure", phrase=True), set()),
        (Text(value="number"), {1, 2, 3, 4}),
        (And(parts=(Term(key="run", value="r-1"), Text(value="number 2", phrase=True))), {2}),
        (Or(parts=(Term(key="is", value="muted"), Term(key="owner", value="grace"))), {3, 4}),
    ],
    ids=repr,
)
def test_search_sees_machine_and_person_together(stores: Stores, where: Expression, expected: set[int]) -> None:
    fault = model.FirstFault(rank=3, node="n-01", exception=model.ExceptionInfo(type="ValueError", message="bad"))
    stores.incidents.write_incidents(
        [
            incident(
                1,
                first_fault=fault,
                fingerprint=model.Fingerprint(id="fp", stack_hash="stack"),
                ranks=[model.RankRole(rank=9, role="waiting")],
            ),
            incident(
                2,
                page=True,
                severity="critical",
                first_fault=model.FirstFault(candidates=[3, 4]),
                evidence=[model.Evidence(id="ev", kind="log", text="Watchdog: timeout", node="n-07")],
            ),
            incident(
                3,
                symptom="nccl_timeout",
                family="communication",
                cause=model.Cause(domain="infrastructure"),
                first_fault=model.FirstFault(status="settled"),
                attempts=[1, 2],
            ),
            incident(4, run=model.RunRef(id="r-2", name="finetune", owner="grace"), state="resolved", resolved_at=NOW_NS),
        ]
    )
    marked(stores, "i-0001", ack_by="ada", ack_at_ns=NOW_NS, assignee="ada")
    marked(stores, "i-0003", muted_until_ns=NOW_NS + 1)
    assert found(stores, where) == {f"i-{number:04}" for number in expected}


def test_a_mute_ends_by_itself(stores: Stores) -> None:
    stores.incidents.write_incidents([incident(1)])
    marked(stores, "i-0001", muted_until_ns=NOW_NS + 10)
    assert found(stores, Term(key="is", value="muted"), NOW_NS + 9) == {"i-0001"}
    assert found(stores, Term(key="is", value="muted"), NOW_NS + 10) == set()


def test_a_mark_written_before_the_incident_counts(stores: Stores) -> None:
    marked(stores, "i-0001", resolved_by="ada", resolved_at_ns=NOW_NS, muted_until_ns=NOW_NS + 5)
    stores.incidents.write_incidents([incident(1)])
    assert found(stores, And(parts=(Term(key="is", value="resolved"), Term(key="is", value="muted")))) == {"i-0001"}


def test_a_person_resolves_and_a_recurrence_opens_again(stores: Stores) -> None:
    stores.incidents.write_incidents([incident(1)])
    marked(stores, "i-0001", resolved_by="ada", resolved_at_ns=NOW_NS + 10)
    assert found(stores, Term(key="is", value="resolved")) == {"i-0001"}
    stores.incidents.write_incidents([incident(1, revision=2, recurrences=1, first_fault=model.FirstFault(time=NOW_NS + 20))])
    assert found(stores, Term(key="is", value="open")) == {"i-0001"}
    items = stores.incidents.incidents(ListQuery(tenant="acme"), NOW_NS).items
    assert [(item.revision, triage.resolved_by) for item, triage in items] == [(2, "ada")]


def test_runs_by_last_update(stores: Stores) -> None:
    stores.incidents.write_runs([run(1), run(2, owner="grace", state="failed", nodes=["n-09"]), run(3)])
    stores.incidents.write_runs([run(1, revision=2, updated_ns=NOW_NS + 100 * SECOND_NS)])
    first = stores.incidents.runs(ListQuery(tenant="acme", limit=2))
    assert [item.run for item in first.items] == ["r-1", "r-3"]
    assert first.next_key is not None
    assert [item.run for item in stores.incidents.runs(ListQuery(tenant="acme", after=tuple(first.next_key))).items] == ["r-2"]
    for where in (Term(key="owner", value="grace"), Term(key="state", value="failed"), Term(key="node", value="n-09"), Text(value="r-2")):
        assert [item.run for item in stores.incidents.runs(ListQuery(tenant="acme", where=where)).items] == ["r-2"]


@pytest.mark.parametrize("where", [Term(key="is", value="late"), Term(key="severity", value="loud"), Term(key="colour", value="red")])
def test_what_cannot_be_asked_is_an_error(stores: Stores, where: Expression) -> None:
    with pytest.raises(SearchError):
        stores.incidents.incidents(ListQuery(tenant="acme", where=where), NOW_NS)
    with pytest.raises(SearchError):
        stores.incidents.runs(ListQuery(tenant="acme", where=where))


def test_only_what_is_resolved_for_long_enough_is_dropped(stores: Stores) -> None:
    old, later = NOW_NS - 10 * SECOND_NS, NOW_NS + 10 * SECOND_NS
    past: dict[str, Any] = {"opened_at": old - SECOND_NS, "run": model.RunRef(id="r-7")}
    stores.incidents.write_incidents(
        [
            incident(1, state="resolved", resolved_at=old, **past),
            incident(2, state="resolved", resolved_at=later, **past),
            incident(3, **past),
            incident(4, **past),
            incident(5, state="resolved", resolved_at=old, **past),
            incident(6, tenant="other", state="resolved", resolved_at=old, **past),
        ]
    )
    marked(stores, "i-0001", assignee="ada")
    marked(stores, "i-0004", resolved_by="ada", resolved_at_ns=old)
    marked(stores, "i-0005", reopened_at_ns=old + 1)
    gone = stores.incidents.prune_incidents(NOW_NS, 100)
    assert sorted(gone) == [("acme", "i-0001"), ("acme", "i-0004"), ("other", "i-0006")]
    assert found(stores, And()) == {"i-0002", "i-0003", "i-0005"}
    assert stores.incidents.revisions("acme", "i-0001") == []
    assert stores.triage.triage("acme", "i-0001").version == 0
    assert found(stores, Text(value="1")) == set()
    assert stores.incidents.prune_incidents(NOW_NS, 100) == []


def test_pruning_drops_at_most_so_many_at_once(stores: Stores) -> None:
    stores.incidents.write_incidents([incident(n, opened_at=n, state="resolved", resolved_at=n) for n in range(1, 6)])
    assert [len(stores.incidents.prune_incidents(NOW_NS, 2)) for _ in range(4)] == [2, 2, 1, 0]


def test_an_incident_that_was_dropped_can_come_back(stores: Stores) -> None:
    stores.incidents.write_incidents([incident(1, opened_at=1, state="resolved", resolved_at=2)])
    stores.incidents.prune_incidents(NOW_NS, 10)
    stores.incidents.write_incidents([incident(1, revision=2, title="again")])
    assert found(stores, Text(value="again")) == {"i-0001"}


def test_runs_go_by_their_last_update_unless_an_incident_is_about_them(stores: Stores) -> None:
    stores.incidents.write_runs([run(1), run(2), run(3, updated_ns=NOW_NS + 60 * SECOND_NS), run(2, tenant="other")])
    stores.incidents.write_incidents([incident(1, run=model.RunRef(id="r-2"))])
    cut = NOW_NS + 30 * SECOND_NS
    assert stores.incidents.prune_runs(cut, 1) == 1
    assert stores.incidents.prune_runs(cut, 10) == 1
    assert stores.incidents.prune_runs(cut, 10) == 0
    assert [one.run for one in stores.incidents.runs(ListQuery(tenant="acme")).items] == ["r-3", "r-2"]
    assert stores.incidents.runs(ListQuery(tenant="other")).items == []
    assert [one.run for one in stores.incidents.runs(ListQuery(tenant="acme", where=Text(value="pretrain"))).items] == ["r-3", "r-2"]
