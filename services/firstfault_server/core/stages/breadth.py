"""How many different series of a process are stored: a name with a counter in it must not fill the store."""

import hashlib
import json
from typing import Final

from firstfault.conventions import METRIC_UNITS
from firstfault_server.core import model

REASON: Final = "series_limit"
"""Why points are not stored."""


def stored(known: set[int], series: list[model.Series], most: int) -> tuple[list[model.Series], int]:
    """The series to store, in the order given, and how many points are not; `known` takes up those seen for the first time.

    Metrics of the conventions without attributes are always stored and never counted, so that what detection reads is never
    missing. Of the others the first `most` are; within one request they come in the order of their names.
    """
    wide = [one for one in series if one.attributes or one.metric not in METRIC_UNITS]
    if not wide:
        return series, 0
    marks = {id(one): _mark(one) for one in wide}
    fresh = {marks[id(one)]: one for one in wide if marks[id(one)] not in known}
    for mark in sorted(fresh, key=lambda mark: (fresh[mark].metric, mark))[: max(0, most - len(known))]:
        known.add(mark)
    kept = [one for one in series if id(one) not in marks or marks[id(one)] in known]
    return kept, sum(len(one.values) for one in wide if marks[id(one)] not in known)


def _mark(series: model.Series) -> int:
    """63 bits that stand for a series; among a few thousand two alike are unlikely and would cost nothing but the bound."""
    attributes = json.dumps(series.attributes, sort_keys=True) if series.attributes else ""
    text = f"{series.metric}\0{attributes}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big") >> 1
