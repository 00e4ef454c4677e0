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
