"""Whose problem it is."""

import pytest

from firstfault_server.core.cause.domains import DOMAINS, SURROUNDINGS, cause_of, surroundings
from firstfault_server.tables import load_tables, load_taxonomy

TAXONOMY = load_taxonomy()


@pytest.mark.parametrize("symptom", [*TAXONOMY, "never heard of"])
def test_probabilities_sum_to_one_and_follow_the_prior(symptom: str) -> None:
    cause = cause_of(symptom, [], TAXONOMY)
    assert sum(cause.domains.values()) == pytest.approx(1, abs=1e-3)
    assert set(cause.domains) == set(DOMAINS)
    assert cause.confidence == max(cause.domains.values())


def test_evidence_moves_a_domain_that_the_prior_does_not_name() -> None:
    before, after = (cause_of("cuda_oom", evidence, TAXONOMY).domains["data"] for evidence in ([], [{"data": 3.0}]))
    assert after > before > 0


def test_without_a_domain_of_half_the_probability_it_is_unknown() -> None:
    assert cause_of("loss_spike", [], TAXONOMY).domain == "unknown"
    assert cause_of("gpu_lost", [], TAXONOMY).domain == "infrastructure"


def test_surroundings_move_the_cause_and_a_hardware_fact_explains_the_rest() -> None:
    assert surroundings() == []
    assert surroundings(scope="all") == [SURROUNDINGS["all ranks alike"]]
    assert surroundings(fact=True, scope="all") == [SURROUNDINGS["hardware fact"]]
    alone = cause_of("cuda_oom", surroundings(), TAXONOMY).domains["infrastructure"]
    shared = cause_of("cuda_oom", surroundings(other_process=True), TAXONOMY).domains["infrastructure"]
    assert shared > 2 * alone


def test_every_pattern_moves_domains_that_exist() -> None:
    patterns = load_tables().patterns.patterns
    assert {domain for row in patterns for domain in row.domains} <= set(DOMAINS)
