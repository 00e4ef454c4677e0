"""The incident's life as one table: which state follows which on what (architecture.md section 5, "Incident life")."""

from typing import Final, Literal, TypeAlias

Life: TypeAlias = Literal["none", "suspected", "provisional", "settled", "resolved", "withdrawn"]
"""none: nothing to show · suspected: a stall over its budget, open, severity warning, page false · provisional: open, the verdict may
still change, nobody is paged · settled: the verdict that pages · resolved: over · withdrawn: it turned out that nothing had failed."""

Trigger: TypeAlias = Literal["stall", "evidence", "due", "stop", "gone", "recovered", "passed"]
"""stall: no progress beyond a budget · evidence: a fault that ends or stops training, or a confirmed hang · due: every rank is
accounted for, or the time to settle is over · stop: a user, a scheduler or a time limit explains everything · gone: the evidence
does not stand any more · recovered: progress or finite numbers came back · passed: a later attempt passed the failed step."""

TABLE: Final[dict[tuple[Life, Trigger], Life]] = {
    ("none", "stall"): "suspected",
    ("none", "evidence"): "provisional",
    ("suspected", "evidence"): "provisional",
    ("suspected", "recovered"): "resolved",
    ("suspected", "gone"): "resolved",
    ("suspected", "stop"): "resolved",
    ("suspected", "passed"): "resolved",
    ("provisional", "due"): "settled",
    ("provisional", "stop"): "withdrawn",
    ("provisional", "gone"): "withdrawn",
    ("provisional", "recovered"): "resolved",
    ("provisional", "passed"): "resolved",
    ("settled", "stop"): "resolved",
    ("settled", "gone"): "resolved",
    ("settled", "recovered"): "resolved",
    ("settled", "passed"): "resolved",
    ("resolved", "stall"): "suspected",
    ("resolved", "evidence"): "provisional",
    ("withdrawn", "stall"): "suspected",
    ("withdrawn", "evidence"): "provisional",
}

OPEN: Final[frozenset[Life]] = frozenset({"suspected", "provisional", "settled"})


def step(life: Life, trigger: Trigger) -> Life:
    """The state after a trigger; one that means nothing in a state changes nothing."""
    return TABLE.get((life, trigger), life)
