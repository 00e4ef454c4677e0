"""Each scripted fault gives exactly the incidents it must, paged once or not at all."""

import pytest

from firstfault_server.tables import Tables, load_tables
from tests.property.cases import CASES, Case
from tests.property.scripts import Driver


@pytest.fixture(scope="module")
def tables() -> Tables:
    return load_tables()


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_fault_gives_its_incidents(case: Case, tables: Tables) -> None:
    outcome = Driver(tables=tables).play([case.build()], case.until)
    assert outcome.failures == {}
    incidents = outcome.incidents()
    said = [(one.symptom, one.title, one.state, one.resolved_why) for one in incidents]
    assert len(incidents) == len(case.expected), said
    for incident, expected in zip(incidents, case.expected, strict=True):
        fault = incident.first_fault
        assert incident.symptom == expected.symptom, said
        assert (fault.rank, fault.scope) == (expected.rank, expected.scope), incident.title
        roles = {one.rank: one.role for one in incident.ranks}
        assert {rank: roles[rank] for rank in expected.roles} == expected.roles
        assert incident.page == expected.page
        assert outcome.pages(incident) == int(expected.page)
        assert incident.state == expected.state, incident.resolved_why
        assert incident.recurrences == expected.recurrences
        if expected.page:
            assert fault.status == "settled"
        if expected.candidates is not None:
            assert fault.candidates == expected.candidates
        if expected.node is not None:
            assert fault.node == expected.node
        assert incident.evidence and all(one.text for one in incident.evidence)
    assert outcome.runs["job"].state == case.run_state, outcome.runs["job"].state_reason
    assert len(outcome.revisions) == len({(one.id, one.revision) for one in outcome.revisions})
