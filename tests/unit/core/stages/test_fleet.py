"""Groups over runs: counts, runs, nodes; each revision passes once."""

from typing import Any

from firstfault_server.core import model
from firstfault_server.core.stages.fleet import Fleet, FleetState
from firstfault_server.core.stages.protocol import FOREVER

HOUR = 3600 * 1_000_000_000
START = 1000 * 24 * HOUR


def incident(
    number: int, when_h: float, *, fingerprint: str = "f", node: str = "n1", status: Any = "settled", **fields: Any
) -> model.Incident:
    opened = START + round(when_h * HOUR)
    return model.Incident(
        id=f"i{number}",
        revision=fields.pop("revision", 1),
        tenant="t",
        run=model.RunRef(id=f"r{number}"),
        symptom="cuda_oom",
        family="memory",
        first_fault=model.FirstFault(status=status, node=node),
        fingerprint=model.Fingerprint(id=fingerprint),
        opened_at=opened,
        updated_at=opened,
        **fields,
    )


def history(*incidents: model.Incident) -> model.History:
    stage = Fleet()
    state: FleetState = stage.new("t/memory")
    out: list[model.AnyRecord] = []
    for one in incidents:
        assert stage.key(one) == "t/memory"
        out = stage.on_batch(state, [one], one.updated_at)
        state = stage.decode(stage.encode(state))
        assert stage.deadline(state) == FOREVER
    (last,) = out
    assert isinstance(last, model.Incident)
    return last.history


def test_the_first_of_its_kind_is_new() -> None:
    seen = history(incident(1, 0))
    assert (seen.count_24h, seen.count_7d, seen.runs, seen.same_node, seen.group) == (1, 1, [], 0, "f")


def test_earlier_ones_are_counted_within_a_day_and_a_week() -> None:
    seen = history(incident(1, 0), incident(2, 100), incident(3, 120, node="n2"), incident(4, 121))
    assert (seen.count_24h, seen.count_7d) == (3, 4)
    assert seen.runs == ["r3", "r2", "r1"]
    assert seen.same_node == 2
    assert seen.first_seen == START


def test_another_fingerprint_is_another_group() -> None:
    assert history(incident(1, 0), incident(2, 1, fingerprint="g")).count_7d == 1


def test_revisions_of_one_incident_count_once_and_recurrences_count_each() -> None:
    again = incident(1, 1, revision=2, recurrences=2)
    assert history(incident(1, 0), again).count_24h == 3


def test_a_provisional_verdict_sees_the_group_and_is_not_seen_by_it() -> None:
    assert history(incident(1, 0), incident(2, 1, status="provisional")).count_24h == 2
    assert history(incident(1, 0, status="provisional"), incident(2, 1)).count_24h == 1


def test_a_corrected_incident_moves_to_its_group() -> None:
    moved = [incident(1, 0), incident(1, 0, revision=2, fingerprint="g"), incident(2, 1)]
    assert history(*moved).count_24h == 1
    assert history(*moved[:2], incident(2, 1, fingerprint="g")).count_24h == 2


def test_a_withdrawn_incident_leaves_its_group() -> None:
    gone = incident(1, 0, revision=2, state="resolved", resolved_why="withdrawn: asked to stop")
    assert history(incident(1, 0), gone, incident(2, 1)).count_24h == 1


def test_memory_is_bounded() -> None:
    stage = Fleet()
    state = stage.new("t/memory")
    for number in range(2500):
        stage.on_batch(state, [incident(number, number / 1000, fingerprint=f"f{number % 2200}")], START)
    assert len(state.groups) <= 2000
    assert len(stage.encode(state)) < 600_000
