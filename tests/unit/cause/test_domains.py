"""Whose problem it is."""

import pytest

from firstfault_server.core.cause.domains import DOMAINS, cause_of
from firstfault_server.tables import load_taxonomy

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
