"""Says how far grouping as failures come in agrees with grouping them all at once.

    python -m tests.eval.agreement TEXTS.jsonl

Each line holds `text`. The agreement is the share of pairs on which both say the same, together or apart, over random orders; and
the Rand index adjusted for chance.
"""

import json
import random
import sys
from collections import Counter
from collections.abc import Sequence
from math import comb
from pathlib import Path

from firstfault_server.core.grouping.groups import Failure, Groups
from firstfault_server.offline.group import canonical, failure_in
from firstfault_server.tables import load_tables

ORDERS = 5


def grouped(failures: Sequence[Failure]) -> list[str]:
    """Group of each failure, joined in the order given."""
    groups = Groups()
    return [groups.join(failure).group for failure in failures]


def agreement(one: Sequence[str], two: Sequence[str]) -> tuple[float, float]:
    """(share of pairs alike, adjusted Rand index) of two groupings of the same things."""
    total = comb(len(one), 2)
    both = sum(comb(count, 2) for count in Counter(zip(one, two, strict=True)).values())
    first, second = (sum(comb(count, 2) for count in Counter(names).values()) for names in (one, two))
    if not total:
        return 1.0, 1.0
    chance = first * second / total
    most = (first + second) / 2
    return (total + 2 * both - first - second) / total, (both - chance) / (most - chance) if most != chance else 1.0


def main(path: Path) -> None:
    """Print the figures."""
    tables = load_tables()
    reader = tables.text_reader()
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    failures = sorted((failure_in(row["text"], tables, reader) for row in rows), key=canonical)
    batch = grouped(failures)
    print(f"texts {len(failures)}, groups {len(set(batch))}")
    for seed in range(ORDERS):
        order = random.Random(seed).sample(range(len(failures)), len(failures))
        found = dict(zip(order, grouped([failures[i] for i in order]), strict=True))
        alike, adjusted = agreement(batch, [found[i] for i in range(len(failures))])
        print(f"order {seed}: pairs alike {alike:.4f}, adjusted Rand index {adjusted:.3f}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        raise SystemExit(2)
    main(Path(sys.argv[1]))
