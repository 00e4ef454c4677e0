"""Fits the weights of the pattern table on labelled failure texts and says how well they hold on threads they have not seen.

    python -m tests.eval.calibration DATA_DIR TAXONOMY_WITH_LABELS

A weight name of `patterns.yaml` stands for one log-odds: that a text whose strongest pattern has it carries that pattern's symptom.
It is the smoothed share of right answers, so a handful of numbers is fitted whatever the number of patterns. Cross-validation leaves
out one source thread at a time. `pessimistic` also takes away every pattern that no other thread of the data ever led with.
"""

import json
import math
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import yaml

from firstfault_server.core.cause.log_incidents import incidents_of
from firstfault_server.core.cause.log_leading import leading_seen
from firstfault_server.core.cause.log_reader import LogReader
from firstfault_server.core.cause.log_summary import LogSummary
from firstfault_server.core.cause.patterns import PatternTable
from firstfault_server.core.cause.text import TextReader
from firstfault_server.core.grouping.prefix import labelled
from firstfault_server.tables import Tables, load_tables

PRIOR = {"decisive": 0.99, "strong": 0.97, "moderate": 0.93, "weak": 0.85, "type": 0.75, "fallback": 0.55, "none": 0.5}
"""Share of right answers before any text was seen."""
PRIOR_TEXTS = 6.0
"""How many texts the prior counts for."""
STEP = 0.003
BINS = 5


class Item(msgspec.Struct, kw_only=True):
    """One labelled text."""

    id: str
    thread: str
    text: str
    accepted: frozenset[str]
    verbatim: bool


class Answer(msgspec.Struct, kw_only=True):
    """What was said of one text."""

    right: bool
    weight: str = ""
    """Name of the weight that the leading pattern has; empty when nothing was found."""
    pattern: str = ""


def load_items(folder: Path, taxonomy: Path) -> list[Item]:
    """The labelled texts with the symptoms that count as right."""
    labels = yaml.safe_load(taxonomy.read_text(encoding="utf-8"))["labels"]
    items = []
    for row in json.loads((folder / "tracebacks_index.json").read_text(encoding="utf-8")):
        accepted = labels[row["label"]]
        raw = json.loads((folder / "tracebacks" / f"{row['id']}.json").read_text(encoding="utf-8"))
        items.append(
            Item(
                id=row["id"],
                thread=row["source"],
                text=raw["text"],
                accepted=frozenset([accepted] if isinstance(accepted, str) else accepted),
                verbatim=row["fidelity"] == "verbatim",
            )
        )
    return items


def read(text: str, reader: TextReader) -> LogSummary:
    """What a text says."""
    lines = text.split("\n")
    log = LogReader(reader, "text", labelled=labelled(lines[:200]))
    for number, line in enumerate(lines, 1):
        log.feed(line, number)
    return log.close()


def answer(item: Item, tables: Tables, reader: TextReader) -> Answer:
    """The tool's answer to one text."""
    log = read(item.text, reader)
    incidents = incidents_of([log], tables.judging)
    if not incidents:
        return Answer(right=False)
    seen = leading_seen(log, tables.judging)
    name = seen.reading.pattern if seen is not None else ""
    rows = {row.id: row.weight for row in tables.patterns.patterns}
    return Answer(right=incidents[0].symptom in item.accepted, weight=rows.get(name, "weak"), pattern=name)


def fitted(answers: Sequence[Answer]) -> dict[str, float]:
    """Log-odds by weight name, smoothed by the prior and kept in the order of the prior."""
    shares = {}
    for name, prior in PRIOR.items():
        mine = [one for one in answers if one.weight == name]
        shares[name] = (sum(one.right for one in mine) + PRIOR_TEXTS * prior) / (len(mine) + PRIOR_TEXTS)
    lowest = 1.0
    weights = {}
    for name in sorted(PRIOR, key=lambda one: -PRIOR[one]):
        # Strictly falling, so that the more telling of two patterns still leads.
        lowest = min(lowest - STEP, shares[name])
        weights[name] = math.log(lowest / (1 - lowest))
    return weights


def calibration_error(told: Sequence[tuple[float, bool]]) -> float:
    """Expected calibration error over bins of equal count."""
    ordered = sorted(told)
    error = 0.0
    for number in range(BINS):
        part = ordered[number * len(ordered) // BINS : (number + 1) * len(ordered) // BINS]
        if part:
            said = sum(p for p, _ in part) / len(part)
            was = sum(right for _, right in part) / len(part)
            error += abs(said - was) * len(part) / len(ordered)
    return error


def probability(weights: Mapping[str, float], name: str) -> float:
    """Probability that an answer with this weight name is right."""
    return 1 / (1 + math.exp(-weights[name])) if name else 0.0


def without(tables: Tables, patterns: frozenset[str]) -> Tables:
    """Tables that lack some patterns."""
    kept = tuple(row for row in tables.patterns.patterns if row.id not in patterns)
    table = PatternTable(weights=tables.patterns.weights, patterns=kept, advice_marks=tables.patterns.advice_marks)
    return msgspec.structs.replace(tables, patterns=table)


def main(folder: Path, taxonomy: Path) -> None:
    """Print the figures."""
    items, tables = load_items(folder, taxonomy), load_tables()
    reader = tables.text_reader()
    answers = [answer(item, tables, reader) for item in items]
    leads: dict[str, set[str]] = defaultdict(set)
    for item, said in zip(items, answers, strict=True):
        leads[said.pattern].add(item.thread)
    weights = fitted(answers)
    print("weights", {name: round(value, 2) for name, value in weights.items()})
    told, hits, pessimistic, verbatim = [], 0, 0, [0, 0]
    for thread in sorted({item.thread for item in items}):
        inside = [i for i, item in enumerate(items) if item.thread == thread]
        held = fitted([said for i, said in enumerate(answers) if i not in inside])
        refit = msgspec.structs.replace(tables, patterns=msgspec.structs.replace(tables.patterns, weights=held))
        alone = frozenset(name for name, threads in leads.items() if threads == {thread})
        poor = without(refit, alone)
        for i in inside:
            said = answer(items[i], refit, refit.text_reader())
            told.append((probability(held, said.weight), said.right))
            hits += said.right
            verbatim[0] += said.right and items[i].verbatim
            verbatim[1] += items[i].verbatim
            pessimistic += answer(items[i], poor, poor.text_reader()).right if alone else said.right
    total = len(items)
    print(f"texts {total}, threads {len({item.thread for item in items})}")
    print(f"accuracy {sum(said.right for said in answers) / total:.3f}")
    print(f"cross-validated accuracy {hits / total:.3f}, verbatim {verbatim[0] / max(verbatim[1], 1):.3f}")
    print(f"pessimistic (patterns that other threads led with) {pessimistic / total:.3f}")
    print(f"cross-validated expected calibration error {calibration_error(told):.3f}")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        raise SystemExit(2)
    main(Path(sys.argv[1]), Path(sys.argv[2]))
