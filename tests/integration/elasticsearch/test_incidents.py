"""Incidents and marks that several write at once, what is pruned, and records that are hard to store."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import pytest

from firstfault_server.adapters.elasticsearch import Connection, ElasticsearchStores, open_stores
from firstfault_server.adapters.elasticsearch.merging import Merging
from firstfault_server.adapters.elasticsearch.templates import FAMILIES
from firstfault_server.core import model
from firstfault_server.core.search import And, Expression, Term, Text
from firstfault_server.ports import ListQuery, StoreUnavailable, VersionConflict
from tests.contract.records import DAY_NS, NOW_NS, SECOND_NS, FixedClock, audit, delivery, incident, message, run
from tests.contract.test_access_store import key

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]


def found(stores: ElasticsearchStores, where: Expression, tenant: str = "acme") -> set[str]:
    """What a list finds once it has seen all writes."""
    stores.cluster.refresh(*FAMILIES)
    return {item.id for item, _ in stores.incidents.incidents(ListQuery(tenant=tenant, where=where, limit=200), NOW_NS).items}


def mark(stores: ElasticsearchStores, incident_id: str = "i-0001", **changes: Any) -> model.Triage:
    """Change marks as the API does."""
    while True:
        stored = stores.triage.triage("acme", incident_id)
        entry = audit(1, id=f"{incident_id}-{stored.version}-{threading.get_ident()}", subject=incident_id)
        try:
            return stores.triage.put_triage(msgspec.structs.replace(stored, **changes), entry)
        except VersionConflict:
            continue


def test_detection_and_people_who_write_at_once_lose_nothing(stores: ElasticsearchStores, others: ElasticsearchStores) -> None:
    stores.incidents.write_incidents([incident(1)])

    def detect() -> None:
        for revision in range(2, 22):
            stores.incidents.write_incidents([incident(1, revision=revision, title=f"revision {revision}")])

    def people() -> None:
        for number in range(20):
            mark(others, assignee=f"person {number}")

    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(detect), pool.submit(people)]:
            done.result()
    wanted = And(parts=(Text(value="revision 21", phrase=True), Term(key="assignee", value="person 19")))
    assert found(stores, wanted) == {"i-0001"}
    assert [each.revision for each in stores.incidents.revisions("acme", "i-0001")] == list(range(1, 22))
    assert len(stores.triage.audit(ListQuery(tenant="acme", limit=50)).items) == 20


def test_an_incident_and_its_first_mark_written_at_once_are_found_together(
    stores: ElasticsearchStores, others: ElasticsearchStores
) -> None:
    numbers = range(12)
    with ThreadPoolExecutor(2) as pool:
        for number in numbers:
            written = pool.submit(stores.incidents.write_incidents, [incident(number)])
            mark(others, f"i-{number:04}", ack_by="ada", ack_at_ns=NOW_NS)
            written.result()
    assert found(stores, Term(key="is", value="acknowledged")) == {f"i-{number:04}" for number in numbers}


def test_two_that_write_different_revisions_leave_the_highest(stores: ElasticsearchStores, others: ElasticsearchStores) -> None:
    with ThreadPoolExecutor(2) as pool:
        for each, revisions in ((stores, (1, 4, 5)), (others, (2, 3, 6))):
            pool.submit(each.incidents.write_incidents, [incident(1, revision=revision) for revision in revisions])
    assert stores.incidents.incident("acme", "i-0001").revision == 6
    kept = [each.revision for each in stores.incidents.revisions("acme", "i-0001")]
    assert kept == sorted(set(kept))
    assert kept[-1] == 6


def test_a_mark_whose_writer_dies_before_lists_can_see_it_is_shown_later(
    stores: ElasticsearchStores, others: ElasticsearchStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    stores.incidents.write_incidents([incident(1), incident(2)])

    def die(self: Merging, triage: model.Triage) -> None:
        raise StoreUnavailable("the process ends here")

    with monkeypatch.context() as patched:
        patched.setattr(Merging, "mark", die)
        with pytest.raises(StoreUnavailable):
            stores.triage.put_triage(model.Triage(tenant="acme", incident="i-0001", ack_by="ada", ack_at_ns=NOW_NS), audit(1))
    assert others.triage.triage("acme", "i-0001").version == 1
    assert [entry.id for entry in others.triage.audit(ListQuery(tenant="acme")).items] == ["a-0001"]
    assert found(others, Term(key="is", value="acknowledged")) == set()
    assert others.triage.repair() == 1
    assert found(others, Term(key="is", value="acknowledged")) == {"i-0001"}
    assert others.triage.repair() == 0


def test_people_see_their_marks_in_lists_at_once(stores: ElasticsearchStores) -> None:
    stores.incidents.write_incidents([incident(1)])
    mark(stores, ack_by="ada", ack_at_ns=NOW_NS)
    query = ListQuery(tenant="acme", where=Term(key="is", value="acknowledged"))
    assert [item.id for item, _ in stores.incidents.incidents(query, NOW_NS).items] == ["i-0001"]
    assert [entry.subject for entry in stores.triage.audit(ListQuery(tenant="acme")).items] == ["i-0001"]


def test_no_incident_goes_that_people_have_just_reopened(
    stores: ElasticsearchStores, others: ElasticsearchStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    stores.incidents.write_incidents([incident(1, opened_at=1, state="resolved", resolved_at=2)])
    with monkeypatch.context() as patched:
        patched.setattr(Merging, "mark", lambda self, triage: None)
        mark(stores, reopened_at_ns=NOW_NS)
    assert others.incidents.prune_incidents(NOW_NS, 10) == []
    assert others.incidents.incident("acme", "i-0001").revision == 1


def test_the_audit_of_marks_outlives_their_incident(stores: ElasticsearchStores) -> None:
    stores.incidents.write_incidents([incident(1, opened_at=1)])
    mark(stores, assignee="ada")
    mark(stores, resolved_by="ada", resolved_at_ns=2)
    assert stores.incidents.prune_incidents(NOW_NS, 10) == [("acme", "i-0001")]
    assert len(stores.triage.audit(ListQuery(tenant="acme")).items) == 2


def test_old_tries_and_entries_go_by_the_month(connection: Connection, stores: ElasticsearchStores) -> None:
    for month in range(3):
        time_ns = NOW_NS - (2 - month) * 31 * DAY_NS
        stores.outbox.record(message(1), delivery(month, message(1), time_ns=time_ns))
        stores.triage.put_triage(model.Triage(tenant="acme", incident="i-0001", version=month), audit(month, time_ns=time_ns))
    assert stores.outbox.prune_deliveries(NOW_NS - 20 * DAY_NS) == 2
    assert stores.triage.prune_audit(NOW_NS - 20 * DAY_NS) == 2
    with connection.client() as client:
        left = [name.removeprefix(f"{connection.prefix}-") for name in client.indices.get(index=f"{connection.prefix}-*")]
    # The entry of the last change is in the marks themselves.
    assert [name for name in left if name.startswith(("audit", "deliveries"))] == ["deliveries-v1-2026.09"]
    assert [entry.id for entry in stores.triage.audit(ListQuery(tenant="acme")).items] == ["a-0002"]


HOSTILE: list[model.Incident] = [
    incident(1, title="lone \ud800 surrogate", symptom="\udfff"),
    incident(2, title="control \x00\x01\x1b[31m\u2028 characters"),
    incident(3, opened_at=(1 << 63) + 5, updated_at=-(1 << 63)),
    incident(4, evidence=[model.Evidence(id="ev", kind="log", text="x" * 10_000_000 + " " + "word " * 100_000)]),
    incident(5, ranks=[model.RankRole(rank=rank, role="initiating") for rank in range(20_000)]),
    incident(6, run=model.RunRef(id="run " * 10_000, name="n" * 100_000, owner="o" * 40_000)),
    incident(7, revision=(1 << 64) - 1),
    incident(8, first_fault=model.FirstFault(stderr_tail=["line " * 1000] * 200)),
]


def test_what_is_hard_to_store_is_stored_and_costs_no_neighbour(stores: ElasticsearchStores) -> None:
    stores.incidents.write_incidents([incident(90), *HOSTILE, incident(91)])
    assert found(stores, And()) == {f"i-{number:04}" for number in [90, 91, *range(1, 9)]}
    for each in HOSTILE[1:]:
        assert stores.incidents.incident("acme", each.id) == each
    assert stores.incidents.incident("acme", "i-0001").title == r"lone \ud800 surrogate"
    assert stores.context.dead_letters(ListQuery(tenant="acme")).items == []


def test_what_cannot_be_stored_becomes_a_dead_letter_and_costs_no_neighbour(stores: ElasticsearchStores) -> None:
    stores.incidents.write_incidents([incident(1), incident(2, updated_at=1 << 70), incident(3, id="i" * 40_000), incident(4)])
    stores.incidents.write_runs([run(1), run(2, run="r" * 40_000), run(3, started_ns=1 << 70), run(4)])
    stores.outbox.add([message(1), message(2, id="m" * 40_000), message(3)])
    assert found(stores, And()) == {"i-0001", "i-0004"}
    assert {each.run for each in stores.incidents.runs(ListQuery(tenant="acme")).items} == {"r-1", "r-4"}
    assert len(stores.outbox.messages("acme", "i-0001")) == 2
    reasons = [letter.reason for letter in stores.context.dead_letters(ListQuery(tenant="acme")).items]
    assert len(reasons) == 5
    assert all(any(reason.startswith(f"the {what}") for what in ("incident", "run", "message")) for reason in reasons)


def test_names_of_anything_can_be_asked_for(stores: ElasticsearchStores) -> None:
    for name in ("\ud800", "\x00", "*", "i" * 100_000, "", "../_search", "ä"):
        assert stores.incidents.revisions("acme", name) == []
        assert stores.triage.triage("acme", name).version == 0
        assert stores.outbox.messages(name, name) == []
        assert stores.access.key_by_hash(name) is None
        assert found(stores, Term(key="run", value=name), tenant=name) == set()


def test_pages_stay_as_they_are_while_incidents_are_written(stores: ElasticsearchStores) -> None:
    stores.incidents.write_incidents([incident(number) for number in range(25)])
    seen: list[str] = []
    query, revision = ListQuery(tenant="acme", limit=4), 2
    while True:
        stores.cluster.refresh(*FAMILIES)
        page = stores.incidents.incidents(query, NOW_NS)
        seen += [item.id for item, _ in page.items]
        if page.next_key is None:
            break
        stores.incidents.write_incidents([incident(number, revision=revision) for number in range(25)] + [incident(90 + revision)])
        query, revision = msgspec.structs.replace(query, after=tuple(page.next_key)), revision + 1
    assert seen == [f"i-{number:04}" for number in reversed(range(25))]


def test_a_revoked_key_is_refused_at_once_by_every_replica(stores: ElasticsearchStores, others: ElasticsearchStores) -> None:
    stores.access.put_key(key(1))
    assert others.access.key_by_hash("hash-1") == key(1)
    stores.access.put_key(key(1, revoked_ns=5))
    assert others.access.key_by_hash("hash-1") == key(1, revoked_ns=5)


def test_an_answer_is_remembered_over_midnight(connection: Connection, stores: ElasticsearchStores, clock: FixedClock) -> None:
    clock.time_ns = NOW_NS // DAY_NS * DAY_NS + DAY_NS - SECOND_NS
    stores.triage.remember("acme", "key", "hash", b"answer")
    clock.time_ns += 2 * SECOND_NS
    stores.triage.remember("acme", "key", "hash", b"later")
    assert stores.triage.recall("acme", "key") == ("hash", b"answer")
    replica = open_stores(connection, clock, "two")
    assert replica.triage.recall("acme", "key") == ("hash", b"answer")
    replica.close()
    clock.time_ns += 3 * DAY_NS
    stores.triage.prune_audit(0)
    with connection.client() as client:
        assert not client.indices.exists(index=f"{connection.prefix}-answers-*", allow_no_indices=False)
