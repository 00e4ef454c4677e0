"""What to do about an incident: rows of the advice table, given only where the evidence makes them apply."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from firstfault_server.core import model

MOST: Final = 3
"""Pieces of advice an incident carries at most: more is not read in ten seconds."""
_FIELD: Final = re.compile(r"\{(\w+)\}")


class AdviceRow(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """One row of the advice table."""

    symptoms: tuple[str, ...]
    text: str
    because: str
    pattern: str = ""
    """Only when the leading evidence came from this pattern."""
    needs: tuple[str, ...] = ()
    """Facts that must be known."""
    lacks: tuple[str, ...] = ()
    """Facts that must not be known."""


def advice_for(
    symptom: str,
    rows: Sequence[AdviceRow],
    *,
    pattern: str = "",
    facts: Mapping[str, str] | None = None,
) -> list[model.Advice]:
    """Advice that applies, the more specific first.

    `facts` are what the evidence says: those of the leading reading, `node`, and `evidence`, the leading line itself.
    """
    known = {name: value for name, value in (facts or {}).items() if value}
    given: list[model.Advice] = []
    for row in rows:
        if symptom not in row.symptoms or (row.pattern and row.pattern != pattern):
            continue
        if any(name not in known for name in row.needs) or any(name in known for name in row.lacks):
            continue
        wanted = set(_FIELD.findall(row.text)) | set(_FIELD.findall(row.because))
        if not wanted <= known.keys():
            continue
        advice = model.Advice(text=_filled(row.text, known), because=_filled(row.because, known))
        if advice.text not in {earlier.text for earlier in given}:
            given.append(advice)
    return given[:MOST]


def _filled(text: str, facts: Mapping[str, str]) -> str:
    return _FIELD.sub(lambda found: facts[found.group(1)][:300], text)
