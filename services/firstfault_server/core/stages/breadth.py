"""How many different series of a process are stored: a name with a counter in it must not fill the store."""

import hashlib
import json
from typing import Final

from firstfault.conventions import METRIC_UNITS
from firstfault_server.core import model

REASON: Final = "series_limit"
"""Why points are not stored."""
_MOST_MARKS: Final = 1 << 14
"""Marks that are kept; when there are more, all are worked out anew, so that new names without end take no memory without end."""


class Breadth:
    """Tells which series of processes are stored. What a process has is kept by the caller; here only the marks of names are kept."""

    def __init__(self, most: int) -> None:
        """`most`: series a process."""
        self._most = most
        self._marks: dict[tuple[str, str], int] = {}

    def stored(self, known: set[int], series: list[model.Series]) -> tuple[list[model.Series], int]:
        """The series to store, in the order given, and how many points are not; `known` takes up those seen for the first time.

        Metrics of the conventions without attributes are always stored and never counted, so that what detection reads is never
        missing. Of the others the first `most` are; within one request they come in the order of their names.
        """
        wide = [(self._mark(one), one) for one in series if one.attributes or one.metric not in METRIC_UNITS]
        fresh = {mark: one for mark, one in wide if mark not in known}
        if not fresh:
            return series, 0
        for mark in sorted(fresh, key=lambda mark: (fresh[mark].metric, mark))[: max(0, self._most - len(known))]:
            known.add(mark)
        refused = {id(one): len(one.values) for mark, one in wide if mark not in known}
        return [one for one in series if id(one) not in refused], sum(refused.values())

    def _mark(self, series: model.Series) -> int:
        """63 bits that stand for a series; among a few thousand two alike are unlikely and would cost nothing but the bound."""
        name = (series.metric, json.dumps(series.attributes, sort_keys=True) if series.attributes else "")
        found = self._marks.get(name)
        if found is None:
            if len(self._marks) >= _MOST_MARKS:
                self._marks.clear()
            text = "\0".join(name).encode("utf-8", "surrogatepass")
            found = self._marks[name] = int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big") >> 1
        return found
