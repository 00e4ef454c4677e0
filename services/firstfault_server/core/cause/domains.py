"""Whose problem it is: log-odds from the symptom's prior plus what the evidence adds, in one readable sum."""

import math
from collections.abc import Mapping, Sequence
from typing import Final

from firstfault_server.core import model

DOMAINS: Final = ("workload", "infrastructure", "data", "unknown")
FLOOR: Final = 0.01
"""Probability a domain keeps although the symptom's prior does not name it: evidence can still move it."""
DECIDED: Final = 0.5
"""Below this the domain is reported as unknown."""


SURROUNDINGS: Final[Mapping[str, Mapping[str, float]]] = {
    "hardware fact": {"infrastructure": 2.0},
    "all ranks alike": {"workload": 0.7},
    "one node alone": {"infrastructure": 0.5},
    "memory held by another process": {"infrastructure": 1.5},
}
"""Log-odds that what surrounds a failure adds, beside those its patterns carry (`domains` in patterns.yaml): judgement, not fitted."""


def surroundings(*, fact: bool = False, scope: str = "rank", other_process: bool = False) -> list[Mapping[str, float]]:
    """What the surroundings of a failure say about whose problem it is."""
    holds = {
        "hardware fact": fact,
        "all ranks alike": scope == "all" and not fact,
        "one node alone": scope == "node" and not fact,
        "memory held by another process": other_process,
    }
    return [SURROUNDINGS[name] for name, true in holds.items() if true]


def cause_of(
    symptom: str,
    evidence: Sequence[Mapping[str, float]],
    taxonomy: model.Taxonomy,
) -> model.Cause:
    """Probabilities over the domains, summing to 1.

    `evidence` holds the log-odds that each pattern or fact adds (`TextReading.domains`). The highest domain is named when it
    has at least half of the probability; `confidence` is its probability either way.
    """
    row = taxonomy.get(symptom)
    prior = row.domains if row is not None else {"unknown": 1.0}
    scores = {domain: math.log(max(prior.get(domain, 0.0), FLOOR)) for domain in DOMAINS}
    for added in evidence:
        for domain, log_odds in added.items():
            if domain in scores:
                scores[domain] += log_odds
    top = max(scores.values())
    shares = {domain: math.exp(score - top) for domain, score in scores.items()}
    total = sum(shares.values())
    domains = {domain: round(share / total, 4) for domain, share in shares.items()}
    best = max(DOMAINS, key=lambda domain: domains[domain])
    named = best if domains[best] >= DECIDED else "unknown"
    return model.Cause(domain=named, confidence=domains[best], domains=domains)
